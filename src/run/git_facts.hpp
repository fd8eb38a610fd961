// Where the code stood in version control when it ran.
#pragma once

#include <filesystem>

#include "base/json_fwd.hpp"

namespace startrail::run {

// {"commit", "branch", "dirty"} of the repository that holds `folder`, or null when there is none. `branch` is null
// on a detached HEAD; `dirty` (a tracked file differs from the commit) is null when git isn't installed, refuses the
// repository's owner, or takes over two seconds. No hook, filter or monitor that the repository configures is run
// against the user's will: a repository of somebody else's is never asked for its `dirty`.
[[nodiscard]] Json git_facts(const std::filesystem::path& folder);

}  // namespace startrail::run
