// Without isolation: the image's Python on the host's system. What it can't give is in README.md.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "supervise/run_place.hpp"
#include "volume/volume.hpp"

namespace startrail::supervise {

// What is taken over from the host (PATH, locale, libraries, but no PYTHON* or CONDA_*), with the image's environment
// first on PATH: a virtual environment under scratch whose packages are the image's own tree. Its interpreter is
// the host's Python of the same minor version; where there is none, the image base's, started through the base's own
// dynamic loader. Without an image it's the host as it is.
// Errors: those of image::open; unsupported when neither Python can be used.
[[nodiscard]] Result<base::Environment> host_environment(const RunPlace& place, const volume::Plan& volumes);

// The same variables with the volumes' inner paths replaced by the host's.
[[nodiscard]] base::Environment host_names(const volume::Plan& volumes, base::Environment environment);

// `command` with its program looked up on that environment's PATH; unchanged when it isn't there.
[[nodiscard]] std::vector<std::string> resolved_on(const base::Environment& environment,
                                                   std::vector<std::string> command);

}  // namespace startrail::supervise
