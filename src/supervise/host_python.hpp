// A virtual environment on the host whose packages are an image's.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "image/image.hpp"

namespace startrail::supervise {

struct HostPython {
  std::filesystem::path root;      // holds pyvenv.cfg
  std::filesystem::path programs;  // root/bin: python, and the image's console scripts
};

// Makes the tree under `root`. Nothing of the image is copied or changed. The interpreter is the first native program
// named after the image's Python in `search` (folders, as in PATH), else the image base's own.
// Errors: not_found (an image without an environment), unsupported (no interpreter that could run it).
[[nodiscard]] Result<HostPython> make_host_python(const image::Image& image, const std::filesystem::path& root,
                                                  const std::string& search);

}  // namespace startrail::supervise
