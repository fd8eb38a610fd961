// Two snapshots of code compared file by file.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/json.hpp"

namespace startrail::app {

// {"added": [path], "removed": [path], "changed": [{"path", "diff"}]}; null when they are the same. `diff` is a unified
// diff of small text files, null for others. A snapshot of "" (none was taken) makes it {"unknown": "…"} unless both
// are "".
[[nodiscard]] Result<Json> diff_code(const std::filesystem::path& snapshots, const std::string& a,
                                     const std::string& b);

}  // namespace startrail::app
