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

namespace startrail::base {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

bool is_dot(std::string_view name) {
  return name == "." || name == "..";
}

Result<void> remove_entries(int directory, dev_t device, const fs::path& shown) {
  std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(::dup(directory)));
  if (!stream) return fail(errno_error(fmt::format("cannot list {}", shown.string()), errno));
  while (const dirent* entry = ::readdir(stream.get())) {
    if (is_dot(entry->d_name)) continue;
    if (::unlinkat(directory, entry->d_name, 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM && errno != EACCES)
      return fail(errno_error(fmt::format("cannot remove {}", (shown / entry->d_name).string()), errno));
    struct stat status{};
    if (::fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISDIR(status.st_mode)) {
      ::fchmod(directory, 0700);
      if (::unlinkat(directory, entry->d_name, 0) == 0) continue;
      return fail(errno_error(fmt::format("cannot remove {}", (shown / entry->d_name).string()), errno));
    }
    if (status.st_dev != device)
      return fail(ErrorCode::permission,
                  fmt::format("{} is another filesystem; not removed", (shown / entry->d_name).string()));
    ::fchmodat(directory, entry->d_name, 0700, 0);
    const Fd child(::openat(directory, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!child.valid())
      return fail(errno_error(fmt::format("cannot open {}", (shown / entry->d_name).string()), errno));
    TRY(remove_entries(child.get(), device, shown / entry->d_name));
    if (::unlinkat(directory, entry->d_name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
      ::fchmod(directory, 0700);
      if (::unlinkat(directory, entry->d_name, AT_REMOVEDIR) != 0)
        return fail(errno_error(fmt::format("cannot remove {}", (shown / entry->d_name).string()), errno));
    }
  }
  return {};
}

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
    if (fs::is_directory(directory)) return {};
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
  ::chmod(root.c_str(), 0700);
  const Fd fd = TRY(open_file(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(remove_entries(fd.get(), status.st_dev, root));
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
