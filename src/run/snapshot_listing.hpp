// Which files of a folder belong to its snapshot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace startrail::run {

struct Listing {
  std::vector<std::string> paths;    // relative, sorted, each once; no folders
  std::vector<std::string> omitted;  // what was not even looked at: "data (another filesystem)"
};
// By `git ls-files` where the folder is in a repository and anything of it is listed there, else by walking it
// without version control's own files, caches and environments.
// Errors: not_found, permission (the folder itself).
[[nodiscard]] Result<Listing> list_files(const std::filesystem::path& folder);

}  // namespace startrail::run
