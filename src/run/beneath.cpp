#include "run/beneath.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace startrail::run {
namespace {

std::string name_in(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// One component of the way: a folder, or the reason why not.
std::expected<base::Fd, int> enter(int parent, const std::string& name) {
  if (name.empty() || name == "." || name == "..") return std::unexpected(EINVAL);
  base::Fd fd(::openat(parent, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(errno);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return std::unexpected(errno);
  if (S_ISLNK(status.st_mode)) return std::unexpected(ELOOP);
  if (!S_ISDIR(status.st_mode)) return std::unexpected(ENOTDIR);
  return fd;
}

}  // namespace

Result<Beneath> Beneath::open(const fs::path& folder) {
  return Beneath(TRY(base::open_file(folder, O_PATH | O_DIRECTORY)));
}

std::expected<int, int> Beneath::folder_of(std::string_view path) {
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return m_root.get();
  const std::string_view wanted = path.substr(0, slash);
  if (m_folder.valid() && m_folder_path == wanted) return m_folder.get();
  base::Fd reached;
  for (std::size_t start = 0; start <= wanted.size();) {
    const std::size_t end = std::min(wanted.find('/', start), wanted.size());
    auto next = enter(reached.valid() ? reached.get() : m_root.get(), std::string(wanted.substr(start, end - start)));
    if (!next) return std::unexpected(next.error());
    reached = std::move(*next);
    start = end + 1;
  }
  m_folder = std::move(reached);
  m_folder_path = wanted;
  return m_folder.get();
}

std::expected<struct stat, int> Beneath::look_at(const std::string& path) {
  const auto folder = folder_of(path);
  if (!folder) return std::unexpected(folder.error());
  struct stat status{};
  if (::fstatat(*folder, name_in(path).c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::unexpected(errno);
  return status;
}

std::expected<std::string, int> Beneath::target_of(const std::string& path) {
  const auto folder = folder_of(path);
  if (!folder) return std::unexpected(folder.error());
  std::string target(4096, '\0');
  const ssize_t length = ::readlinkat(*folder, name_in(path).c_str(), target.data(), target.size());
  if (length < 0) return std::unexpected(errno);
  target.resize(static_cast<std::size_t>(length));
  return target;
}

std::expected<base::Fd, int> Beneath::open_file(const std::string& path) {
  const auto folder = folder_of(path);
  if (!folder) return std::unexpected(folder.error());
  base::Fd fd(::openat(*folder, name_in(path).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(errno);
  return fd;
}

}  // namespace startrail::run
