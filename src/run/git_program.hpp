// Running git on a folder that may be somebody else's.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace startrail::run {

// The nearest ancestor (or `folder` itself) that holds a `.git`.
[[nodiscard]] std::optional<std::filesystem::path> repository_of(const std::filesystem::path& folder);

enum class ForeignRepositories {
  refused,  // git's own rule: the repository must belong to the caller
  allowed,  // only for commands that run nothing the repository's configuration names
};
// Standard output of `git -C folder arguments…`; nullopt when git is missing, fails or takes too long.
// No monitor, no transport, no terminal prompt, no lock.
[[nodiscard]] std::optional<std::string> run_git(const std::filesystem::path& folder,
                                                 const std::vector<std::string>& arguments, ForeignRepositories foreign,
                                                 std::chrono::milliseconds timeout);

}  // namespace startrail::run
