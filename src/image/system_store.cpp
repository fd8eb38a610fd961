#include "image/system_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fts.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
#include <thread>

#include "base/files.hpp"
#include "base/json.hpp"
#include "image/image_folder.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/store.hpp"

namespace startrail::image {
namespace {

struct Setting {
  fs::path root;
  std::optional<Error> refusal;
};
Setting& setting() {
  static Setting the_one;
  return the_one;
}

// A user's own small folders, where root's are: what is made in a folder goes into the uppermost of those that merge
// there, and an ordinary user's container may not copy up a folder of root's (overlayfs: its owner has no number in
// the user namespace). Enough for a `pip install` inside, for /etc, /opt, /usr/local and the like.
constexpr int k_own_depth = 2;

enum class Sticky { counts_as_closed, counts_as_open };

Result<void> check_status(const fs::path& path, const struct stat& status, Sticky sticky) {
  const auto refuse = [&](std::string_view why) {
    return base::fail(ErrorCode::refused, fmt::format("{} {}", path.string(), why));
  };
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return refuse(fmt::format("belongs to uid {}, neither to root nor to you", status.st_uid));
  const bool closed = S_ISLNK(status.st_mode) || (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  const bool shared = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0 && sticky == Sticky::counts_as_closed;
  if (closed || shared) return {};
  return refuse("can be written by others than its owner");
}

Result<void> check_one(const fs::path& path, Sticky sticky) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) return check_status(path, status, sticky);
  return base::fail(base::errno_error(fmt::format("cannot look at {}", path.string()), errno));
}

// The image's own folders of the first levels, and where packages go.
Result<void> make_own_folders(const fs::path& theirs, const fs::path& own, int depth) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(theirs, fs::directory_options::skip_permission_denied, failed)) {
    struct stat status{};
    if (::lstat(entry.path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    const fs::path place = own / entry.path().filename();
    TRY(base::make_directories(place, 0755));
    if (::chmod(place.c_str(), status.st_mode & 07777) != 0)
      return base::fail(base::errno_error(fmt::format("cannot set the mode of {}", place.string()), errno));
    if (depth > 1) TRY(make_own_folders(entry.path(), place, depth - 1));
  }
  return {};
}

}  // namespace

void use_system_store(const fs::path& root) {
  setting() = {.root = root, .refusal = {}};
  if (root.empty()) return;
  if (const auto trusted = check_trusted(root); !trusted) setting().refusal = trusted.error();
}

fs::path system_store_beside(const fs::path& own) {
  const Setting& set = setting();
  if (set.root.empty() || set.refusal) return {};
  std::error_code ignored;
  return fs::equivalent(set.root, own, ignored) ? fs::path() : set.root;
}

std::optional<std::string> system_store_refusal() {
  const Setting& set = setting();
  if (!set.refusal) return std::nullopt;
  return fmt::format("the system store {} is not used: {}", set.root.string(), set.refusal->message);
}

Result<void> check_trusted(const fs::path& path) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  if (failed) return base::fail(ErrorCode::not_found, fmt::format("{} is not there", path.string()));
  TRY(check_one(real, Sticky::counts_as_open));
  for (fs::path above = real.parent_path(); true; above = above.parent_path()) {
    TRY(check_one(above, Sticky::counts_as_closed));
    if (above == above.parent_path()) return {};
  }
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

std::optional<fs::path> shared_image(const Store& store, const std::string& id) {
  const fs::path file = store.image(id) / "shared.json";
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
  const auto json = base::read_json_file(file);
  if (!json) return std::nullopt;
  return Store::at(base::string_at(*json, "store")).image(id);
}

Result<bool> share_image(const Store& store, const std::string& key, const std::string& id) {
  const fs::path root = system_store_beside(store.root());
  if (root.empty()) return false;
  const Store theirs = Store::at(root);
  const auto manifest = read_manifest(theirs, id);
  if (!manifest || !manifest->parent.empty() || manifest->is_foreign() || is_pulled(theirs, id)) return false;
  const fs::path base = theirs.folder("bases") / manifest->base_digest;
  // Of a base only the top: Debian's own accounts have folders in it.
  if (!check_trusted_tree(theirs.image(id)) || !check_trusted(base / "root")) return false;
  const fs::path staging = store.staging(key);
  TRY(base::make_directories(staging / "tree"));
  TRY(make_own_folders(base / "root", staging / "tree", k_own_depth));
  const fs::path site = fmt::format("{}/lib/python{}/site-packages", k_prefix, manifest->python);
  for (const fs::path& folder : {fs::path(k_prefix) / "bin", site})
    TRY(base::make_directories(staging / "tree" / folder));
  for (const char* name : {"manifest.json", "details.json"}) {
    const std::string text = TRY(base::read_file(theirs.image(id) / name));
    TRY(base::write_file_atomic(staging / name, text, 0444));
  }
  TRY(base::write_file_atomic(staging / "shared.json", base::to_pretty_text(Json{{"store", root.string()}}), 0444));
  TRY(store.publish(key, store.image(id)));
  return true;
}

namespace {

constexpr int k_patience = 20;

// flock(2) asks for no right but to open the file: everybody can hold what everybody can read.
base::Fd open_of(const fs::path& folder) {
  for (const char* name : {"manifest.json", "meta.json"})
    if (base::Fd fd(::open((folder / name).c_str(), O_RDONLY | O_CLOEXEC)); fd.valid()) return fd;
  return {};
}

}  // namespace

void hold_for_life(const fs::path& folder) {
  static std::mutex mutex;
  static std::map<fs::path, base::Fd> held;
  const std::scoped_lock lock(mutex);
  if (held.contains(folder)) return;
  base::Fd fd = open_of(folder);
  // Whoever only looks whether it is held has the lock for a moment; somebody who never lets go must not stop us.
  for (int tries = 0; fd.valid() && tries < k_patience; ++tries) {
    if (::flock(fd.get(), LOCK_SH | LOCK_NB) == 0) {
      held.emplace(folder, std::move(fd));
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool is_held(const fs::path& folder) {
  const base::Fd fd = open_of(folder);
  return fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace startrail::image
