#include "sandbox/linux/trusted_path.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>
#include <vector>

namespace startrail::sandbox {
namespace {

using base::Fd;

Error cannot_mount(const fs::path& path, int reason) {
  return base::errno_error(fmt::format("cannot mount {}", path.string()), reason);
}

// Parts of a path that are still to be walked, the next one last.
class Walk {
 public:
  explicit Walk(const fs::path& path) : m_path(path) { push(path.string()); }

  Result<Fd> run() {
    Fd at = TRY(base::open_file("/", O_PATH | O_DIRECTORY));
    while (!m_parts.empty()) {
      const std::string part = std::move(m_parts.back());
      m_parts.pop_back();
      Fd next(::openat(at.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      struct stat status{};
      if (!next.valid() || ::fstat(next.get(), &status) != 0) return fail(cannot_mount(m_path, errno));
      if (!S_ISLNK(status.st_mode)) {
        at = std::move(next);
        continue;
      }
      if (TRY(follow(next, status.st_uid))) at = TRY(base::open_file("/", O_PATH | O_DIRECTORY));
    }
    return at;
  }

 private:
  // True when the link leads away from the root.
  Result<bool> follow(const Fd& link, uid_t owner) {
    constexpr int k_most_links = 40;  // path_resolution(7)
    if (owner != 0)
      return fail(base::error(ErrorCode::permission, fmt::format("cannot mount {}: a link on the way belongs to uid {}",
                                                                 m_path.string(), owner))
                      .with_context("root follows no links of others: they could lead anywhere on this machine")
                      .with_hint("name the folder that it leads to"));
    if (++m_links > k_most_links) return fail(cannot_mount(m_path, ELOOP));
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(link.get(), "", target.data(), target.size());
    if (size <= 0) return fail(cannot_mount(m_path, errno));
    push({target.data(), static_cast<std::size_t>(size)});
    return target[0] == '/';
  }

  void push(const std::string& path) {
    std::vector<std::string> parts;
    for (const auto& part : fs::path(path).relative_path())
      if (!part.empty() && part != ".") parts.push_back(part.string());
    m_parts.insert(m_parts.end(), parts.rbegin(), parts.rend());
  }

  const fs::path& m_path;
  std::vector<std::string> m_parts;
  int m_links = 0;
};

}  // namespace

Result<Fd> open_trusted(const fs::path& path, Mode mode) {
  // Rootless, the caller's own rights bound what a link can lead to.
  const std::uint64_t resolve = mode == Mode::root ? RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS : 0;
  open_how how{.flags = O_PATH | O_CLOEXEC, .mode = 0, .resolve = resolve};
  Fd found(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
  if (found.valid()) return found;
  if (errno != ELOOP || !path.is_absolute()) return fail(cannot_mount(path, errno));
  return Walk(path).run();
}

}  // namespace startrail::sandbox
