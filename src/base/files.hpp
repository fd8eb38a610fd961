// Files, as everything above needs them: whole reads, atomic writes, locks, trees.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/units.hpp"

namespace startrail::base {

namespace fs = std::filesystem;

// An owned file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : m_fd(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      m_fd = std::exchange(other.m_fd, -1);
    }
    return *this;
  }
  [[nodiscard]] int get() const { return m_fd; }
  [[nodiscard]] bool valid() const { return m_fd >= 0; }
  int release() { return std::exchange(m_fd, -1); }
  void reset();

 private:
  int m_fd = -1;
};

// open(2) with O_CLOEXEC. Errors: not_found, permission, no_space, internal.
[[nodiscard]] Result<Fd> open_file(const fs::path& file, int flags, mode_t mode = 0644);

// The whole file; a file over `limit` is refused as invalid_input, not read.
[[nodiscard]] Result<std::string> read_file(const fs::path& file, Bytes limit = {256ULL << 20U});
[[nodiscard]] Result<void> write_all(int fd, std::string_view data, const fs::path& name_for_errors);

enum class Durable { no, yes };
// Writes a temporary sibling and renames it over `file`, so that readers see the old or the new content,
// never a part. Durable::yes also fsyncs the file and its folder.
[[nodiscard]] Result<void> write_file_atomic(const fs::path& file, std::string_view content, mode_t mode = 0644,
                                             Durable durable = Durable::no);

[[nodiscard]] Result<void> make_directories(const fs::path& directory, mode_t mode = 0755);
// Removes a tree whatever its modes (read-only directories are opened up first); a missing one is fine.
// Never follows symlinks, never crosses into another filesystem.
[[nodiscard]] Result<void> remove_tree(const fs::path& root);
// A new, empty, 0700 directory `parent/prefix.XXXXXX`.
[[nodiscard]] Result<fs::path> make_temporary_directory(const fs::path& parent, std::string_view prefix);

// Free bytes for this user on the filesystem that holds `path` (its nearest existing ancestor).
[[nodiscard]] Result<Bytes> free_space(const fs::path& path);

// An exclusive flock(2) on a lock file, which is created as needed and never removed while held.
// Released when destroyed, or by the kernel when the process dies.
class FileLock {
 public:
  // Waits until the lock is free.
  [[nodiscard]] static Result<FileLock> acquire(const fs::path& file);
  // nullopt when somebody else holds it.
  [[nodiscard]] static Result<std::optional<FileLock>> try_acquire(const fs::path& file);

 private:
  explicit FileLock(Fd fd) : m_fd(std::move(fd)) {}
  Fd m_fd;
};

}  // namespace startrail::base

namespace startrail {
namespace fs = std::filesystem;
}
