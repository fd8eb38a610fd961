// Whose files may be run beside one's own: those that root or the caller alone can change.
#pragma once

#include <filesystem>

#include "base/error.hpp"

namespace startrail::image {

// Only root or the caller can change what is at `path`: it, every folder above it and every symbolic link on the way
// belong to one of them, and others may write in none of them (but for folders like /tmp, in which nobody can replace
// what isn't theirs). Errors: refused, permission, not_found, each naming the path.
[[nodiscard]] Result<void> check_trusted(const std::filesystem::path& path);
// The same of `tree` itself and of all that is below it, links not followed; not of what is above.
[[nodiscard]] Result<void> check_trusted_tree(const std::filesystem::path& tree);

}  // namespace startrail::image
