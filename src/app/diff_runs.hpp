// `trail diff A B`: what differed between two runs.
#pragma once

#include <string>
#include <vector>

#include "app/installation.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"

namespace startrail::app {

// {"a", "b", "same": bool, "differences": {"command": {"a", "b"}, "packages": {"added", "removed", "changed"},
//  "code": {"added", "removed", "changed": [{"path", "diff"}]}, "environment", "limits", "machine", …}}.
// A section that doesn't differ is null. The result (state, exit code, times) is shown in "results", and is no
// difference. Errors: not_found, corrupt.
[[nodiscard]] Result<Json> diff_runs(const Installation& installation, const std::string& a, const std::string& b,
                                     Reporter& reporter);

// Members that differ, one level deep: {"added": {k: v}, "removed": {k: v}, "changed": {k: {"a", "b"}}}; null when none
// do.
[[nodiscard]] Json diff_members(const Json& a, const Json& b);

// The locks' packages by name: {name: version}. A version of "" is a directory.
[[nodiscard]] Json packages_of(const std::string& lock_toml);

}  // namespace startrail::app
