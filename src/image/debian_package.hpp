// The files of one Debian package, without those that it depends on.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/reporter.hpp"

namespace startrail::image {

// Fetches `package` (of main, contrib or non-free, in `suite`) by apt, which checks Debian's signatures, and unpacks it
// below the new folder `target`. Nothing of it is run. Errors: as image::mmdebstrap_error, and those of ensure_base.
[[nodiscard]] Result<void> unpack_debian_package(const std::string& suite, const std::string& package,
                                                 const std::filesystem::path& target, Reporter& reporter);

}  // namespace startrail::image
