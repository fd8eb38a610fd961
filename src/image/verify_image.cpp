#include "image/verify_image.hpp"

#include <fmt/format.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <sys/stat.h>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/environment_tree.hpp"
#include "image/image_folder.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/system_store.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {
namespace {

// A file's own number on its filesystem: equal for hard links.
std::optional<std::pair<dev_t, ino_t>> identity(const fs::path& file) {
  struct stat status{};
  if (::lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

// One thing that may stand at a place: a wheel's file, a text of the image's own, or a symbolic link.
struct Candidate {
  fs::path file;       // "" when the image has its own copy
  std::string digest;  // "" for a link
  std::string link;
};
using Places = std::unordered_map<std::string, std::vector<Candidate>>;

class ImageCheck {
 public:
  ImageCheck(const Store& store, const std::string& id, Faults& faults)
      : m_store(store), m_folder(store.image(id)), m_name("image " + id.substr(0, 12)), m_faults(faults) {}

  void run() {
    const auto manifest = read_manifest(m_store, m_folder.filename().string());
    if (!manifest)
      return fault(fmt::format("{}: {}", m_name, manifest.error().message), m_folder / "manifest.json", m_folder);
    if (!base::read_json_file(m_folder / "details.json"))
      fault(m_name + ": its details.json is missing or damaged", m_folder / "details.json", m_folder);
    const bool pulled = is_pulled(m_store, m_folder.filename().string());
    if (manifest->is_foreign()) return check_merged();
    if (!pulled && !manifest->parent.empty() && !read_manifest(m_store, manifest->parent))
      fault(m_name + ": the image it stands on is missing", m_store.image(manifest->parent), m_folder);
    // Its files are the system store's, which its owner checks.
    if (shared_image(m_store, m_folder.filename().string())) return check_shared();
    const fs::path base = m_store.base(manifest->base_digest);
    std::error_code ignored;
    if (!fs::exists(base / "root", ignored)) fault(m_name + ": its base is missing", base, m_folder);
    if (pulled)
      check_merged();
    else
      compare(m_folder, m_folder / "tree" / k_prefix, environment(*manifest));
    if (fs::exists(m_folder / "bytecode", ignored))
      compare(m_folder / "bytecode", m_folder / "bytecode" / k_prefix,
              bytecode(*manifest, pulled ? Origin::elsewhere : Origin::here));
  }

 private:
  void check_shared() {
    const auto image = open(m_store.root(), m_folder.filename().string());
    if (!image) fault(fmt::format("{}: {}", m_name, image.error().message), m_folder, m_folder);
  }

  void fault(std::string what, const fs::path& path, const fs::path& owner) {
    m_faults.add({.what = std::move(what), .path = path, .owner = owner});
  }

  static void add_own(Places& places, const std::vector<OwnFile>& files) {
    for (const OwnFile& file : files)
      places[file.path].push_back(
          {.file = {}, .digest = file.link.empty() ? base::sha256_hex(file.content) : "", .link = file.link});
  }

  static void add_files(Places& places, const WheelTree& tree, const fs::path& root, const std::string& python,
                        std::string_view left_out) {
    for (const TreeFile& file : tree.files)
      if (file.path != left_out)
        places[environment_path(file.path, python, tree.name)].push_back(
            {.file = root / file.path, .digest = base::to_hex(file.digest), .link = {}});
  }

  Places environment(const Manifest& manifest) {
    Places places;
    add_own(places, own_files(manifest.python));
    for (const ManifestWheel& wheel : manifest.wheels) {
      const fs::path root = m_store.wheel(wheel.sha256);
      const auto tree = read_wheel_tree(root);
      if (!tree) {
        fault(fmt::format("{}: the wheel of {} is missing", m_name, wheel.name), root, m_folder);
        continue;
      }
      const auto own = own_files(*tree, manifest.python, {.direct_url = wheel.direct_url});
      add_files(places, *tree, root, manifest.python, own.empty() ? "" : "site/" + tree->dist_info + "/RECORD");
      add_own(places, own);
    }
    return places;
  }

  enum class Origin { here, elsewhere };
  // What came from elsewhere has no wheels: its bytecode is one tree, under the image's own id.
  Places bytecode(const Manifest& manifest, Origin origin) {
    Places places;
    const std::vector<ManifestWheel> own{{.name = m_name, .sha256 = m_folder.filename().string(), .direct_url = {}}};
    for (const ManifestWheel& wheel : origin == Origin::here ? manifest.wheels : own) {
      const fs::path root = m_store.bytecode(wheel.sha256, cache_tag(manifest.python));
      if (const auto tree = read_wheel_tree(root))
        add_files(places, *tree, root, manifest.python, "");
      else
        fault(fmt::format("{}: the bytecode of {} is missing", m_name, wheel.name), root, m_folder / "bytecode");
    }
    return places;
  }

  // Its tree is its layers laid over each other, and nothing else.
  void check_merged() {
    const fs::path root = m_folder / "tree";
    const auto merged = merged_layers(m_store, pulled_layers(m_store, m_folder.filename().string()));
    if (!merged) return fault(fmt::format("{}: {}", m_name, merged.error().message), m_folder, m_folder);
    std::unordered_set<std::string> known;
    merged->for_each([&](const std::string& place, const MergedTree::Node& node) {
      known.insert((root / place).string());
      if (!is_right(root / place, node))
        fault(fmt::format("{}: {} is not what its layers bring", m_name, place), root / place, m_folder);
    });
    for (const fs::path& path : files_below(root))
      if (!known.contains(path.string()))
        fault(fmt::format("{}: {} does not belong to it", m_name, path.lexically_relative(root).string()), path,
              m_folder);
  }

  bool is_right(const fs::path& path, const MergedTree::Node& node) const {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) return false;
    if (node.kind == MergedTree::Node::Kind::folder)
      return S_ISDIR(status.st_mode) && (status.st_mode & 07777U) == node.mode;
    std::error_code failed;
    if (node.kind == MergedTree::Node::Kind::symlink)
      return S_ISLNK(status.st_mode) && fs::read_symlink(path, failed).string() == node.target;
    if (!S_ISREG(status.st_mode) || (status.st_mode & 07777U) != node.mode) return false;
    if (identity(path) == identity(layer_file(m_store, node.content_layer, node.number))) return true;
    const auto digest = base::sha256_file_hex(path);
    return digest && *digest == node.digest;
  }

  // Every place holds one of its candidates, and there is nothing else.
  void compare(const fs::path& owner, const fs::path& prefix, const Places& places) {
    for (const auto& [place, candidates] : places) check_place(owner, prefix / place, place, candidates);
    for (const fs::path& path : files_below(owner == m_folder ? m_folder / "tree" : owner)) {
      const std::string place = path.lexically_relative(prefix).string();
      if (!places.contains(place)) fault(fmt::format("{}: {} does not belong to it", m_name, place), path, owner);
    }
  }

  void check_place(const fs::path& owner, const fs::path& path, const std::string& place,
                   const std::vector<Candidate>& candidates) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) return fault(fmt::format("{}: {} is missing", m_name, place), path, owner);
    if (S_ISLNK(status.st_mode)) {
      std::error_code failed;
      const std::string target = fs::read_symlink(path, failed).string();
      for (const Candidate& candidate : candidates)
        if (!target.empty() && candidate.link == target) return;
    } else if (const auto found = identity(path)) {
      for (const Candidate& candidate : candidates)
        if (!candidate.file.empty() && identity(candidate.file) == found) return;
      // Where links were refused the tree holds copies.
      const auto digest = base::sha256_file_hex(path);
      for (const Candidate& candidate : candidates)
        if (digest && *digest == candidate.digest) return;
    }
    fault(fmt::format("{}: {} is not what its package brings", m_name, place), path, owner);
  }

  const Store& m_store;
  const fs::path m_folder;
  const std::string m_name;
  Faults& m_faults;
};

}  // namespace

void check_image(const Store& store, const std::string& id, Faults& faults) {
  ImageCheck(store, id, faults).run();
}

}  // namespace startrail::image
