// A copy of the project's files for build code that writes beside its sources (setuptools' egg-info does).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace startrail::lock {

struct ProjectCopy {
  std::vector<std::string> left_out;  // relative paths of files too large to be sources
};

// Copies `from` to the new folder `to`: regular files and links that stay inside. Environments, caches, version
// control and files over 64 MiB stay behind. Errors: permission, no_space.
[[nodiscard]] Result<ProjectCopy> copy_project(const std::filesystem::path& from, const std::filesystem::path& to);

// SHA-256 over the paths and contents that `copy_project` would copy. Errors: permission.
[[nodiscard]] Result<std::string> tree_digest(const std::filesystem::path& folder);

// The same over the files that say what the package in `folder` is and needs: pyproject.toml, setup.py, setup.cfg.
[[nodiscard]] Result<std::string> metadata_digest(const std::filesystem::path& folder);

}  // namespace startrail::lock
