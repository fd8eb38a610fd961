// A folder and what really lies in it: no symbolic link is followed on the way to anything.
#pragma once

#include <expected>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "base/error.hpp"
#include "base/files.hpp"

namespace startrail::run {

// A list of paths may be older than the folder, or somebody else's (git's index): what it calls `data/secret` must not
// be read from where a link `data` leads. For openat2(2)'s RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS on older kernels
// too. Not for several threads at once; opening one is cheap.
class Beneath {
 public:
  // `folder` itself may be reached through links. Errors: not_found, permission.
  [[nodiscard]] static Result<Beneath> open(const std::filesystem::path& folder);

  // All of these take relative paths and fail with an errno; ELOOP: a folder on the way is a symbolic link.
  // The last component of these may be a link, and is then meant itself.
  [[nodiscard]] std::expected<struct stat, int> look_at(const std::string& path);
  [[nodiscard]] std::expected<std::string, int> target_of(const std::string& path);
  // For reading; a link as the last component is ELOOP.
  [[nodiscard]] std::expected<base::Fd, int> open_file(const std::string& path);

 private:
  explicit Beneath(base::Fd root) : m_root(std::move(root)) {}
  std::expected<int, int> folder_of(std::string_view path);
  base::Fd m_root, m_folder;
  std::string m_folder_path;  // of m_folder: neighbours are asked for one after the other
};

}  // namespace startrail::run
