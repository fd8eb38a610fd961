// Wheels that need no build: metadata that stands in for a source which only a build could tell, and lines for Python's
// search path.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/error.hpp"

namespace startrail::lock {

// Writes NAME-VERSION-py3-none-any.whl without dependencies into `folder` and returns its path. `files`: path below
// site-packages → content.
[[nodiscard]] Result<std::filesystem::path> write_stub_wheel(const std::filesystem::path& folder,
                                                             const std::string& name, const std::string& version,
                                                             std::map<std::string, std::string> files = {});

}  // namespace startrail::lock
