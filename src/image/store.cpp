#include "image/store.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <thread>

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "image/system_store.hpp"
#include "image/trusted_path.hpp"
#include "image/unsynced.hpp"

namespace startrail::image {
namespace {

constexpr std::array<const char*, 9> k_folders{"wheels", "downloads", "built", "images",  "bytecode",
                                               "layers", "staging",   "locks", "exported"};

constexpr std::string_view k_removed = "removed-";

// A tree without this file was not finished, or lost it.
const char* marker_of(const fs::path& place) {
  const fs::path kind = place.parent_path().filename();
  if (kind == "wheels" || kind == "bytecode") return "meta.json";
  if (kind == "layers") return "contents.json";
  return kind == "images" ? "manifest.json" : ".";
}

}  // namespace

bool is_locked(const fs::path& file) {
  const base::Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  return fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

std::string wheel_key(std::string_view sha256) {
  return fmt::format("wheel-{}.{}", sha256, k_layout);
}

Result<Store> Store::open(const fs::path& root) {
  for (const char* folder : k_folders) TRY(base::make_directories(root / folder));
  return Store(root);
}

Store::Store(fs::path root) : m_root(std::move(root)), m_system(system_store_beside(m_root)) {}

fs::path Store::here_or_there(const fs::path& place) const {
  fs::path own = m_root / place;
  if (m_system.empty() || ::access((own / "meta.json").c_str(), F_OK) == 0) return own;
  fs::path theirs = m_system / place;
  const bool is_there = ::access((theirs / "meta.json").c_str(), F_OK) == 0 && check_trusted(theirs);
  return is_there ? theirs : own;
}

fs::path Store::wheel(std::string_view sha256) const {
  return here_or_there(fs::path("wheels") / fmt::format("{}.{}", sha256, k_layout));
}
fs::path Store::base(std::string_view digest) const {
  return here_or_there(fs::path("bases") / digest);
}
fs::path Store::part(std::string_view sha256) const {
  return m_root / "downloads" / fmt::format("{}.part", sha256);
}
fs::path Store::built(std::string_view key) const {
  return m_root / "built" / fmt::format("{}.json", key);
}
fs::path Store::staging(std::string_view key) const {
  return m_root / "staging" / key;
}
fs::path Store::layer(std::string_view diff_id) const {
  if (diff_id.starts_with("sha256:")) diff_id.remove_prefix(7);
  return m_root / "layers" / fmt::format("{}.{}", diff_id, k_layout);
}
fs::path Store::bytecode(std::string_view sha256, std::string_view python) const {
  return here_or_there(fs::path("bytecode") / fmt::format("{}-{}.{}", sha256, python, k_layout));
}
fs::path Store::image(std::string_view id) const {
  if (id.starts_with("sha256:")) id.remove_prefix(7);
  return m_root / "images" / id;
}

bool Store::has_wheel(std::string_view sha256) const {
  return ::access((wheel(sha256) / "meta.json").c_str(), F_OK) == 0;
}

Result<base::Fd> Store::use() const {
  const fs::path file = m_root / "locks" / "store.lock";
  base::Fd fd = TRY(base::open_file(file, O_RDWR | O_CREAT));
  while (::flock(fd.get(), LOCK_SH) != 0)
    if (errno != EINTR) return base::fail(base::errno_error(fmt::format("cannot lock {}", file.string()), errno));
  return fd;
}

Result<base::Fd> Store::alone(std::chrono::seconds patience) const {
  const fs::path file = m_root / "locks" / "store.lock";
  base::Fd fd = TRY(base::open_file(file, O_RDWR | O_CREAT));
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return base::fail(base::errno_error(fmt::format("cannot lock {}", file.string()), errno));
    if (std::chrono::steady_clock::now() > end)
      return base::fail(base::error(ErrorCode::conflict, "an image is being made in this store just now")
                            .with_hint("try again when it is done"));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return fd;
}

Result<base::FileLock> Store::lock(std::string_view key) const {
  base::FileLock held = TRY(base::FileLock::acquire(m_root / "locks" / fmt::format("{}.lock", key)));
  TRY(base::remove_tree(staging(key)));
  return held;
}

Result<std::optional<base::FileLock>> Store::try_lock(std::string_view key) const {
  auto held = TRY(base::FileLock::try_acquire(m_root / "locks" / fmt::format("{}.lock", key)));
  if (held) TRY(base::remove_tree(staging(key)));
  return held;
}

Result<void> Store::publish(std::string_view key, const fs::path& place) const {
  TRY(note_unsynced(*this, place));
  if (::rename(staging(key).c_str(), place.c_str()) == 0) return {};
  if (errno == EEXIST || errno == ENOTEMPTY) {
    if (::access((place / marker_of(place)).c_str(), F_OK) == 0) return base::remove_tree(staging(key));
    TRY(discard(place));
    if (::rename(staging(key).c_str(), place.c_str()) == 0) return {};
  }
  return base::fail(base::errno_error(fmt::format("cannot move {} into place", place.string()), errno));
}

Result<void> Store::discard(const fs::path& tree) const {
  const fs::path doomed = staging(fmt::format("{}{}", k_removed, tree.filename().string()));
  TRY(base::remove_tree(doomed));
  if (::rename(tree.c_str(), doomed.c_str()) != 0)
    return base::fail(base::errno_error(fmt::format("cannot remove {}", tree.string()), errno));
  return base::remove_tree(doomed);
}

std::vector<fs::path> Store::stale_staging() const {
  std::vector<fs::path> stale;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(m_root / "staging", ignored)) {
    const std::string key = entry.path().filename().string();
    if (!is_locked(m_root / "locks" / fmt::format("{}.lock", key))) stale.push_back(entry.path());
  }
  return stale;
}

}  // namespace startrail::image
