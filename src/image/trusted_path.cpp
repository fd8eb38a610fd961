#include "image/trusted_path.hpp"

#include <fmt/format.h>
#include <fts.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <deque>

#include "base/files.hpp"

namespace startrail::image {
namespace {

constexpr int k_most_links = 40;  // as path_resolution(7)

enum class Sticky { counts_as_closed, counts_as_open };

Result<void> refuse(const fs::path& path, std::string_view why) {
  return base::fail(ErrorCode::refused, fmt::format("{} {}", path.string(), why));
}

Result<void> check_status(const fs::path& path, const struct stat& status, Sticky sticky) {
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return refuse(path, fmt::format("belongs to uid {}, neither to root nor to you", status.st_uid));
  const bool closed = S_ISLNK(status.st_mode) || (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  const bool shared = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0 && sticky == Sticky::counts_as_closed;
  if (closed || shared) return {};
  return refuse(path, "can be written by others than its owner");
}

Result<struct stat> status_of(const fs::path& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT) return base::fail(ErrorCode::not_found, fmt::format("{} is not there", path.string()));
  return base::fail(base::errno_error(fmt::format("cannot look at {}", path.string()), errno));
}

// Takes a path's steps as the kernel does, so that whoever could turn one of its links elsewhere is noticed.
class Walk {
 public:
  explicit Walk(const fs::path& path) : m_steps(path.begin(), path.end()) {}

  Result<void> run() {
    while (!m_steps.empty()) {
      const fs::path step = m_steps.front();
      m_steps.pop_front();
      if (step.empty() || step == ".") continue;
      if (step == "..")
        m_at = m_at.parent_path();
      else
        TRY(enter(m_at / step));  // "/" of an absolute path replaces what was before
    }
    return check_status(m_at, TRY(status_of(m_at)), Sticky::counts_as_open);
  }

 private:
  Result<void> enter(const fs::path& place) {
    const struct stat status = TRY(status_of(place));
    TRY(check_status(place, status, Sticky::counts_as_closed));
    if (!S_ISLNK(status.st_mode)) {
      m_at = place;
      return {};
    }
    if (++m_links > k_most_links) return refuse(place, "leads in circles");
    std::error_code failed;
    const fs::path target = fs::read_symlink(place, failed);
    if (failed) return base::fail(base::errno_error(fmt::format("cannot read {}", place.string()), failed.value()));
    m_steps.insert(m_steps.begin(), target.begin(), target.end());
    return {};
  }

  std::deque<fs::path> m_steps;
  fs::path m_at = "/";
  int m_links = 0;
};

}  // namespace

Result<void> check_trusted(const fs::path& path) {
  return Walk(fs::absolute(path)).run();
}

Result<void> check_trusted_tree(const fs::path& tree) {
  std::string root = tree.string();
  std::array<char*, 2> roots{root.data(), nullptr};
  FTS* walk = ::fts_open(roots.data(), FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
  if (walk == nullptr) return base::fail(base::errno_error(fmt::format("cannot look at {}", root), errno));
  Result<void> result;
  while (FTSENT* entry = ::fts_read(walk)) {
    if (entry->fts_info == FTS_DP) continue;
    if (entry->fts_info == FTS_NS || entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR)
      result = base::fail(base::errno_error(fmt::format("cannot look at {}", entry->fts_path), entry->fts_errno));
    else
      result = check_status(entry->fts_path, *entry->fts_statp, Sticky::counts_as_closed);
    if (!result) break;
  }
  ::fts_close(walk);
  return result;
}

}  // namespace startrail::image
