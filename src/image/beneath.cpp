#include "image/beneath.hpp"

#include <fmt/format.h>
#include <linux/openat2.h>

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace startrail::image {
namespace {

constexpr std::uint64_t k_resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

int open_beneath(int folder, const char* path, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC | O_NOFOLLOW;
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = k_resolve;
  return static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how));
}

// For kernels before 5.6, and containers whose filter does not know openat2: one component after the other.
int open_by_components(int folder, std::string_view path, int flags, mode_t mode) {
  base::Fd held;
  for (;;) {
    const std::size_t slash = path.find('/');
    const std::string component(path.substr(0, slash));
    if (component.empty() || component == "." || component == "..") {
      errno = EXDEV;
      return -1;
    }
    if (slash == std::string_view::npos)
      return ::openat(folder, component.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode);
    base::Fd next(::openat(folder, component.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!next.valid()) return -1;
    held = std::move(next);
    folder = held.get();
    path.remove_prefix(slash + 1);
  }
}

Error path_error(std::string_view doing, const std::string& path, int number) {
  if (number == EXDEV || number == ELOOP)
    return base::error(ErrorCode::unsafe_path, fmt::format("'{}' would leave its folder", path));
  if (number == EEXIST) return base::error(ErrorCode::conflict, fmt::format("'{}' exists already", path));
  if (number == ENOTDIR || number == EISDIR)
    return base::error(ErrorCode::conflict, fmt::format("'{}' is a file and a folder", path));
  return base::errno_error(fmt::format("{} {}", doing, path), number);
}

// The umask of this process; there is no call that reads it without changing it for other threads.
mode_t current_umask() {
  const auto status = base::read_file("/proc/self/status");
  if (!status) return 0777;
  const auto at = status->find("Umask:");
  return at == std::string::npos ? 0777 : static_cast<mode_t>(std::strtoul(status->c_str() + at + 6, nullptr, 8));
}

}  // namespace

Result<Beneath> Beneath::open(const std::filesystem::path& root) {
  return Beneath(TRY(base::open_file(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)), root, current_umask());
}

Result<base::Fd> Beneath::resolve(const std::string& path, int flags, mode_t mode) const {
  int fd = open_beneath(m_root.get(), path.c_str(), flags, mode);
  for (int tries = 0; fd < 0 && errno == EAGAIN && tries < 100; ++tries)  // a rename went on elsewhere: see openat2(2)
    fd = open_beneath(m_root.get(), path.c_str(), flags, mode);
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) fd = open_by_components(m_root.get(), path, flags, mode);
  if (fd < 0) return base::fail(path_error("cannot open", path, errno));
  return base::Fd(fd);
}

Result<base::Fd> Beneath::create(const std::string& path, mode_t mode) const {
  base::Fd fd = TRY(resolve(path, O_RDWR | O_CREAT | O_EXCL, mode));
  if ((mode & m_umask) != 0 && ::fchmod(fd.get(), mode) != 0)
    return base::fail(path_error("cannot set the mode of", path, errno));
  return fd;
}

Result<base::Fd> Beneath::open_for_reading(const std::string& path) const {
  return resolve(path, O_RDONLY, 0);
}

Result<std::string> Beneath::read(const std::string& path, Bytes limit) const {
  const base::Fd fd = TRY(open_for_reading(path));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return base::fail(path_error("cannot read", path, errno));
  if (static_cast<std::uint64_t>(status.st_size) > limit.count)
    return base::fail(ErrorCode::corrupt, fmt::format("'{}' is larger than {}", path, to_text(limit)));
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < content.size()) {
    const ssize_t count = ::pread(fd.get(), content.data() + have, content.size() - have, static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return base::fail(path_error("cannot read", path, count < 0 ? errno : EIO));
    have += static_cast<std::size_t>(count);
  }
  return content;
}

Result<void> Beneath::write(const std::string& path, std::string_view content, mode_t mode) const {
  const base::Fd fd = TRY(create(path, mode));
  return base::write_all(fd.get(), content, m_path / path);
}

Result<Beneath::Place> Beneath::place_of(const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    base::Fd self(::openat(m_root.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!self.valid()) return base::fail(path_error("cannot open", path, errno));
    return Place{.folder = std::move(self), .name = path};
  }
  return Place{.folder = TRY(resolve(path.substr(0, slash), O_PATH | O_DIRECTORY, 0)), .name = path.substr(slash + 1)};
}

Result<void> Beneath::make_folder(const std::string& path) const {
  if (::faccessat(m_root.get(), path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
    (void)TRY(resolve(path, O_PATH | O_DIRECTORY, 0));  // through no symlink, and a folder
    return {};
  }
  if (const std::size_t slash = path.rfind('/'); slash != std::string::npos) TRY(make_folder(path.substr(0, slash)));
  const Place place = TRY(place_of(path));
  if (::mkdirat(place.folder.get(), place.name.c_str(), 0755) != 0) {
    if (errno == EEXIST) return {};
    return base::fail(path_error("cannot create", path, errno));
  }
  if ((0755 & m_umask) != 0 && ::fchmodat(place.folder.get(), place.name.c_str(), 0755, 0) != 0)
    return base::fail(path_error("cannot set the mode of", path, errno));
  return {};
}

Result<void> Beneath::remove_file(const std::string& path) const {
  const Place place = TRY(place_of(path));
  if (::unlinkat(place.folder.get(), place.name.c_str(), 0) != 0)
    return base::fail(path_error("cannot remove", path, errno));
  return {};
}

}  // namespace startrail::image
