#include "base/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

namespace startrail::base {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

bool is_dot(std::string_view name) {
  return name == "." || name == "..";
}

// fchmod(2) refuses descriptors that are open for no access; their entry in /proc stands for the same file.
void open_up(const Fd& path_only) {
  ::chmod(fmt::format("/proc/self/fd/{}", path_only.get()).c_str(), 0700);
}

// Opens the folder `name` of `parent`, never what a link leads to, so that its entries can be listed and removed.
Fd open_for_removal(int parent, const char* name, struct stat& status) {
  constexpr int k_folder = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd folder(::openat(parent, name, O_RDONLY | k_folder));
  if (!folder.valid() && errno == EACCES) {
    const Fd closed(::openat(parent, name, O_PATH | k_folder));
    if (!closed.valid()) return {};
    open_up(closed);
    folder = Fd(::openat(closed.get(), ".", O_RDONLY | k_folder));
  }
  if (!folder.valid() || ::fstat(folder.get(), &status) != 0) return {};
  if ((status.st_mode & S_IRWXU) != S_IRWXU) ::fchmod(folder.get(), 0700);
  return folder;
}

// A tree's removal. Folders can be nested deeper than this process may have files open, so one descriptor goes down and
// up again (by ".."), and the way back is remembered.
class TreeRemoval {
 public:
  explicit TreeRemoval(std::string root) : m_shown(std::move(root)) {}

  Result<void> run() {
    struct stat status{};
    m_current = open_for_removal(AT_FDCWD, m_shown.c_str(), status);
    if (!m_current.valid()) return fail(errno_error(fmt::format("cannot open {}", m_shown), errno));
    m_levels.push_back({.name = {}, .device = status.st_dev, .inode = status.st_ino, .folders = {}});
    TRY(remove_files());
    while (m_levels.size() > 1 || !m_levels.back().folders.empty()) {
      if (m_levels.back().folders.empty()) {
        TRY(go_up());
      } else {
        TRY(go_down());
      }
    }
    return {};
  }

 private:
  struct Level {
    std::string name;  // in its parent
    dev_t device;
    ino_t inode;
    std::vector<std::string> folders;  // in it, still to be removed
  };

  Result<void> go_down() {
    std::string name = std::move(m_levels.back().folders.back());
    m_levels.back().folders.pop_back();
    m_shown += "/" + name;
    struct stat status{};
    Fd child = open_for_removal(m_current.get(), name.c_str(), status);
    if (!child.valid() && errno == ENOENT) {  // somebody else removed it
      m_shown.resize(m_shown.size() - name.size() - 1);
      return {};
    }
    if (!child.valid()) return fail(errno_error(fmt::format("cannot open {}", m_shown), errno));
    if (status.st_dev != m_levels.back().device)
      return fail(ErrorCode::permission, fmt::format("{} is another filesystem; not removed", m_shown));
    m_current = std::move(child);
    m_levels.push_back({.name = std::move(name), .device = status.st_dev, .inode = status.st_ino, .folders = {}});
    return remove_files();
  }

  Result<void> go_up() {
    Fd parent(::openat(m_current.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::string name = std::move(m_levels.back().name);
    m_levels.pop_back();
    struct stat status{};
    if (!parent.valid() || ::fstat(parent.get(), &status) != 0)
      return fail(errno_error(fmt::format("cannot open the folder of {}", m_shown), errno));
    if (status.st_dev != m_levels.back().device || status.st_ino != m_levels.back().inode)
      return fail(ErrorCode::conflict, fmt::format("{} was moved while it was removed", m_shown));
    m_current = std::move(parent);
    if (::unlinkat(m_current.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
      return fail(errno_error(fmt::format("cannot remove {}", m_shown), errno));
    m_shown.resize(m_shown.size() - name.size() - 1);
    return {};
  }

  // All that is no folder goes; what is one is noted.
  Result<void> remove_files() {
    const int listed = ::fcntl(m_current.get(), F_DUPFD_CLOEXEC, 0);
    const std::unique_ptr<DIR, CloseDirectory> stream(listed < 0 ? nullptr : ::fdopendir(listed));
    if (!stream) return fail(errno_error(fmt::format("cannot list {}", m_shown), errno));
    while (const dirent* entry = ::readdir(stream.get())) {
      if (is_dot(entry->d_name)) continue;
      if (entry->d_type == DT_DIR) {
        m_levels.back().folders.emplace_back(entry->d_name);
        continue;
      }
      if (::unlinkat(m_current.get(), entry->d_name, 0) == 0 || errno == ENOENT) continue;
      // Filesystems that tell no types.
      if (errno != EISDIR)
        return fail(errno_error(fmt::format("cannot remove {}", m_shown + "/" + entry->d_name), errno));
      m_levels.back().folders.emplace_back(entry->d_name);
    }
    return {};
  }

  std::string m_shown;
  Fd m_current;
  std::vector<Level> m_levels;
};

}  // namespace

void Fd::reset() {
  if (m_fd >= 0) ::close(std::exchange(m_fd, -1));
}

Result<Fd> open_file(const fs::path& file, int flags, mode_t mode) {
  for (;;) {
    const int fd = ::open(file.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0) return Fd(fd);
    if (errno != EINTR) return fail(errno_error(fmt::format("cannot open {}", file.string()), errno));
  }
}

Result<std::string> read_file(const fs::path& file, Bytes limit) {
  const Fd fd = TRY(open_file(file, O_RDONLY));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail(errno_error(fmt::format("cannot stat {}", file.string()), errno));
  if (S_ISDIR(status.st_mode))
    return fail(ErrorCode::invalid_input, fmt::format("{} is a folder, not a file", file.string()));
  std::string content;
  std::string buffer(64U << 10U, '\0');
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(fmt::format("cannot read {}", file.string()), errno));
    if (count == 0) return content;
    content.append(buffer, 0, static_cast<std::size_t>(count));
    if (content.size() > limit.count)
      return fail(ErrorCode::invalid_input, fmt::format("{} is larger than {}", file.string(), to_text(limit)));
  }
}

Result<void> write_all(int fd, std::string_view data, const fs::path& name_for_errors) {
  while (!data.empty()) {
    const ssize_t count = ::write(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(fmt::format("cannot write {}", name_for_errors.string()), errno));
    data.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> write_file_atomic(const fs::path& file, std::string_view content, mode_t mode, Durable durable) {
  std::string temporary = file.string() + ".XXXXXX";
  const Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return fail(errno_error(fmt::format("cannot write {}", file.string()), errno));
  const auto give_up = [&](Error reason) {
    ::unlink(temporary.c_str());
    return std::unexpected(std::move(reason));
  };
  if (auto written = write_all(fd.get(), content, file); !written) return give_up(std::move(written).error());
  if (::fchmod(fd.get(), mode) != 0) return give_up(errno_error("cannot set mode of " + file.string(), errno));
  if (durable == Durable::yes && ::fsync(fd.get()) != 0)
    return give_up(errno_error("cannot sync " + file.string(), errno));
  if (::rename(temporary.c_str(), file.c_str()) != 0)
    return give_up(errno_error("cannot write " + file.string(), errno));
  if (durable == Durable::yes) {
    const fs::path parent = file.has_parent_path() ? file.parent_path() : fs::path(".");
    const Fd folder = TRY(open_file(parent, O_RDONLY | O_DIRECTORY));
    ::fsync(folder.get());
  }
  return {};
}

Result<void> make_directories(const fs::path& directory, mode_t mode) {
  if (::mkdir(directory.c_str(), mode) == 0) return {};
  if (errno == EEXIST) {
    struct stat status{};
    if (::stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return {};
    return fail(ErrorCode::conflict, fmt::format("{} exists and is not a folder", directory.string()));
  }
  if (errno == ENOENT && directory.has_parent_path() && directory.parent_path() != directory) {
    TRY(make_directories(directory.parent_path(), 0755));
    if (::mkdir(directory.c_str(), mode) == 0 || errno == EEXIST) return {};
  }
  return fail(errno_error(fmt::format("cannot create {}", directory.string()), errno));
}

Result<void> remove_tree(const fs::path& root) {
  struct stat status{};
  if (::lstat(root.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return fail(errno_error(fmt::format("cannot remove {}", root.string()), errno));
  }
  if (!S_ISDIR(status.st_mode)) {
    if (::unlink(root.c_str()) == 0 || errno == ENOENT) return {};
    return fail(errno_error(fmt::format("cannot remove {}", root.string()), errno));
  }
  TRY(TreeRemoval(root.string()).run());
  if (::rmdir(root.c_str()) != 0 && errno != ENOENT)
    return fail(errno_error(fmt::format("cannot remove {}", root.string()), errno));
  return {};
}

Result<fs::path> make_temporary_directory(const fs::path& parent, std::string_view prefix) {
  TRY(make_directories(parent));
  std::string pattern = (parent / prefix).string() + ".XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    return fail(errno_error(fmt::format("cannot create a folder in {}", parent.string()), errno));
  return fs::path(pattern);
}

Result<Bytes> free_space(const fs::path& path) {
  fs::path existing = fs::absolute(path);
  std::error_code ignored;
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) existing = existing.parent_path();
  struct statvfs status{};
  if (::statvfs(existing.c_str(), &status) != 0)
    return fail(errno_error(fmt::format("cannot measure free space of {}", existing.string()), errno));
  return Bytes{static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize};
}

Result<FileLock> FileLock::acquire(const fs::path& file) {
  Fd fd = TRY(open_file(file, O_RDWR | O_CREAT));
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail(errno_error(fmt::format("cannot lock {}", file.string()), errno));
  }
  return FileLock(std::move(fd));
}

Result<std::optional<FileLock>> FileLock::try_acquire(const fs::path& file) {
  Fd fd = TRY(open_file(file, O_RDWR | O_CREAT));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return std::optional(FileLock(std::move(fd)));
  if (errno == EWOULDBLOCK) return std::optional<FileLock>();
  return fail(errno_error(fmt::format("cannot lock {}", file.string()), errno));
}

}  // namespace startrail::base
