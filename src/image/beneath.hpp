// Writing below one directory, and nowhere else: every path is resolved by the kernel from the directory's
// descriptor with RESOLVE_BENEATH and without following symlinks (openat2(2)), never by comparing strings.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/files.hpp"

namespace startrail::image {

class Beneath {
 public:
  [[nodiscard]] static Result<Beneath> open(const std::filesystem::path& root);

  // A new file, open for reading and writing; one that exists is an error. Its mode is `mode` whatever the umask.
  // Folders on the way must exist. Errors: unsafe_path, conflict (it exists), no_space, permission.
  [[nodiscard]] Result<base::Fd> create(const std::string& path, mode_t mode) const;
  [[nodiscard]] Result<base::Fd> open_for_reading(const std::string& path) const;
  [[nodiscard]] Result<std::string> read(const std::string& path, Bytes limit = {64ULL << 20U}) const;
  // A new file with this content.
  [[nodiscard]] Result<void> write(const std::string& path, std::string_view content, mode_t mode) const;
  // The folder and those on the way to it; ones that exist are fine.
  [[nodiscard]] Result<void> make_folder(const std::string& path) const;
  [[nodiscard]] Result<void> remove_file(const std::string& path) const;
  // The folder that holds `path`, and the last component.
  struct Place {
    base::Fd folder;
    std::string name;
  };
  [[nodiscard]] Result<Place> place_of(const std::string& path) const;

  [[nodiscard]] int descriptor() const { return m_root.get(); }
  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

 private:
  Beneath(base::Fd root, std::filesystem::path path, mode_t umask)
      : m_root(std::move(root)), m_path(std::move(path)), m_umask(umask) {}
  [[nodiscard]] Result<base::Fd> resolve(const std::string& path, int flags, mode_t mode) const;
  base::Fd m_root;
  std::filesystem::path m_path;
  mode_t m_umask;  // of this process when the folder was opened
};

}  // namespace startrail::image
