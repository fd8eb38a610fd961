#include "image/system_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <thread>

#include "base/files.hpp"
#include "base/json.hpp"
#include "image/image_folder.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/skeleton.hpp"
#include "image/store.hpp"
#include "image/trusted_path.hpp"

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

}  // namespace

void use_system_store(const fs::path& given) {
  // As what is made of it is written: a slash at the end would make it another name.
  fs::path root = given.lexically_normal();
  if (!root.has_filename() && root.has_relative_path()) root = root.parent_path();
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
  static pid_t holder = ::getpid();
  const std::scoped_lock lock(mutex);
  // A supervisor may be a copy of the process that submitted its run. It closed what that had open, and a number in
  // here may be another file by now: it is forgotten, not closed.
  if (holder != ::getpid()) {
    for (auto& [path, fd] : held) fd.release();
    held.clear();
    holder = ::getpid();
  }
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

std::optional<base::Fd> hold_alone(const fs::path& folder) {
  base::Fd fd = open_of(folder);
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return fd;
}

bool is_held(const fs::path& folder) {
  return !hold_alone(folder);
}

std::optional<fs::path> shared_image(const Store& store, const std::string& id) {
  const fs::path file = store.image(id) / "shared.json";
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
  const auto json = base::read_json_file(file);
  if (!json) return std::nullopt;
  return Store::at(base::string_at(*json, "store")).image(id);
}

namespace {

// Root alone can change any of it. Of a base only the top is looked at: Debian's own accounts have folders in it.
Result<void> check_parts(const fs::path& image, const fs::path& base) {
  TRY(check_trusted(image / "tree"));
  TRY(check_trusted_tree(image));
  return check_trusted(base / "root");
}

Result<void> fill_shared(const fs::path& staging, const Store& theirs, const std::string& id, const fs::path& base) {
  const fs::path image = theirs.image(id);
  TRY(base::make_directories(staging / "tree"));
  TRY(make_skeleton(base / "root", image / "tree", staging / "tree"));
  for (const char* name : {"manifest.json", "details.json"}) {
    const std::string text = TRY(base::read_file(image / name));
    TRY(base::write_file_atomic(staging / name, text, 0444));
  }
  const Json shared{{"store", theirs.root().string()}};
  return base::write_file_atomic(staging / "shared.json", base::to_pretty_text(shared), 0444);
}

}  // namespace

Result<Sharing> share_image(const Store& store, const std::string& key, const std::string& id) {
  const fs::path root = system_store_beside(store.root());
  if (root.empty()) return Sharing{};
  const Store theirs = Store::at(root);
  const auto manifest = read_manifest(theirs, id);
  if (!manifest || !manifest->parent.empty() || manifest->is_foreign() || is_pulled(theirs, id)) return Sharing{};
  const fs::path base = theirs.folder("bases") / manifest->base_digest;
  hold_for_life(theirs.image(id));
  hold_for_life(base);
  if (const auto trusted = check_parts(theirs.image(id), base); !trusted)
    return Sharing{.done = false, .refusal = trusted.error().message};
  TRY(fill_shared(store.staging(key), theirs, id, base));
  TRY(store.publish(key, store.image(id)));
  return Sharing{.done = true, .refusal = {}};
}

Result<void> check_standing(const Store& store, const std::string& id) {
  const auto shared = shared_image(store, id);
  if (!shared) return {};
  const fs::path theirs = shared->parent_path().parent_path();
  const auto refuse = [&](Error reason) {
    const std::string_view name = id.starts_with("sha256:") ? std::string_view(id).substr(7) : id;
    return base::fail(std::move(reason)
                          .with_context(fmt::format("image {} stands on one of the system store", name.substr(0, 12)))
                          .with_hint("make the image again: trail image build"));
  };
  if (theirs != system_store_beside(store.root()))
    return refuse(base::error(ErrorCode::refused, fmt::format("{} is not the system store", theirs.string())));
  // From here on its owner finds it in use; what was taken out before isn't there.
  hold_for_life(*shared);
  const auto manifest = read_manifest(Store::at(theirs), id);
  if (!manifest) return refuse(manifest.error());
  const fs::path base = theirs / "bases" / manifest->base_digest;
  hold_for_life(base);
  for (const fs::path& tree : {*shared / "tree", base / "root"})
    if (auto trusted = check_trusted(tree); !trusted) return refuse(std::move(trusted).error());
  return {};
}

}  // namespace startrail::image
