#include "image/store_inventory.hpp"

#include <fts.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>

#include "image/image_folder.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/verify_store.hpp"

namespace startrail::image {
namespace {

// stat(2): the unit of st_blocks, whatever the filesystem's own blocks are.
constexpr std::uint64_t k_block = 512;
// Of a SHA-256: what every name of content begins with.
constexpr std::size_t k_digest_digits = 64;

struct Name {
  dev_t device;
  ino_t number;
  std::uint64_t size;
  std::uint32_t names;
};

Name name_of(const struct stat& status) {
  return {.device = status.st_dev,
          .number = status.st_ino,
          .size = static_cast<std::uint64_t>(status.st_blocks) * k_block,
          // Of a folder they count the folders in it.
          .names = S_ISDIR(status.st_mode) ? 1 : static_cast<std::uint32_t>(status.st_nlink)};
}

enum class Depth { all, itself };

// Every name at and below `path`, links not followed.
std::vector<Name> names_below(const fs::path& path, Depth depth) {
  std::vector<Name> names;
  std::string root = path.string();
  std::array<char*, 2> roots{root.data(), nullptr};
  FTS* walk = ::fts_open(roots.data(), FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
  if (walk == nullptr) return names;
  while (FTSENT* entry = ::fts_read(walk)) {
    if (entry->fts_info == FTS_DP || entry->fts_info == FTS_NS || entry->fts_info == FTS_ERR) continue;
    names.push_back(name_of(*entry->fts_statp));
    if (depth == Depth::itself) ::fts_set(walk, entry, FTS_SKIP);
  }
  ::fts_close(walk);
  return names;
}

struct Root {
  TreeKind kind;
  fs::path path;
  Depth depth = Depth::all;
};

TreeKind kind_of(const fs::path& folder) {
  static const std::map<std::string, TreeKind> kinds{
      {"wheels", TreeKind::wheel},      {"layers", TreeKind::layer}, {"bases", TreeKind::base},
      {"bytecode", TreeKind::bytecode}, {"images", TreeKind::image}, {"downloads", TreeKind::unfinished},
      {"staging", TreeKind::unfinished}};
  const auto found = kinds.find(folder.filename().string());
  return found == kinds.end() ? TreeKind::other : found->second;
}

// Which base a recipe gave, logs, locks: not what the folder is for.
bool is_content(TreeKind kind, const fs::path& entry) {
  const std::string name = entry.filename().string();
  return kind == TreeKind::unfinished ||
         std::min(name.find_first_not_of("0123456789abcdef"), name.size()) >= k_digest_digits;
}

// The store itself and its folders are trees of one name each, so that the sum is what the disk has.
std::vector<Root> roots_of(const Store& store) {
  std::vector<Root> roots{{.kind = TreeKind::other, .path = store.root(), .depth = Depth::itself}};
  for (const fs::path& folder : entries_of(store.root())) {
    const TreeKind kind = kind_of(folder);
    roots.push_back(
        {.kind = TreeKind::other, .path = folder, .depth = kind == TreeKind::other ? Depth::all : Depth::itself});
    if (kind == TreeKind::other) continue;
    for (const fs::path& entry : entries_of(folder))
      roots.push_back({.kind = is_content(kind, entry) ? kind : TreeKind::other, .path = entry});
  }
  return roots;
}

// Waiting for the disk or the kernel, tree by tree: with more than one thread it takes as much less.
std::vector<std::vector<Name>> walk(const std::vector<Root>& roots) {
  std::vector<std::vector<Name>> found(roots.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < roots.size(); i = next++) found[i] = names_below(roots[i].path, roots[i].depth);
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < std::max(2U, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
  workers.clear();
  return found;
}

class Taking {
 public:
  explicit Taking(const Store& store) : m_store(store) {}

  Inventory take() {
    add_trees();
    for (std::size_t tree = 0; tree < m_inventory.trees.size(); ++tree) add_image(tree);
    for (std::size_t image = 0; image < m_inventory.images.size(); ++image)
      for (const std::size_t tree : m_inventory.images[image].needs) m_inventory.trees[tree].needed_by.push_back(image);
    return std::move(m_inventory);
  }

 private:
  void add_trees() {
    const std::vector<Root> roots = roots_of(m_store);
    const auto found = walk(roots);
    for (std::size_t i = 0; i < roots.size(); ++i) {
      StoredTree tree{.kind = roots[i].kind, .path = roots[i].path};
      for (const Name& name : found[i]) tree.files.push_back(file_of(name));
      if (tree.kind != TreeKind::other)
        m_by_name[{tree.kind, tree.path.filename().string().substr(0, k_digest_digits)}].push_back(
            m_inventory.trees.size());
      m_inventory.trees.push_back(std::move(tree));
    }
  }

  std::uint32_t file_of(const Name& name) {
    const auto [place, added] =
        m_numbers.try_emplace({name.device, name.number}, static_cast<std::uint32_t>(m_inventory.files.size()));
    if (added) m_inventory.files.push_back({.size = name.size, .names = name.names});
    ++m_inventory.files[place->second].names_here;
    return place->second;
  }

  void add_image(std::size_t tree) {
    const std::string id = m_inventory.trees[tree].path.filename().string();
    if (m_inventory.trees[tree].kind != TreeKind::image || id.size() != k_digest_digits) return;
    std::set<std::size_t> needs{tree};
    add_needs(id, needs);
    m_inventory.images.push_back(
        {.id = id, .tree = tree, .needs = {needs.begin(), needs.end()}, .last_used = last_used(m_store, id)});
  }

  void add_needs(const std::string& id, std::set<std::size_t>& needs) {
    const auto manifest = read_manifest(m_store, id);
    if (!manifest) return;  // damaged: verify_store tells
    need(TreeKind::base, manifest->base_digest, needs);
    // One from elsewhere has layers, and bytecode of its own; it is its own parent.
    if (is_pulled(m_store, id)) {
      need(TreeKind::bytecode, id, needs);
      for (const std::string& diff_id : pulled_layers(m_store, id))
        need(TreeKind::layer, m_store.layer(diff_id).filename().string().substr(0, k_digest_digits), needs);
      return;
    }
    for (const ManifestWheel& wheel : manifest->wheels) {
      need(TreeKind::wheel, wheel.sha256, needs);
      need(TreeKind::bytecode, wheel.sha256, needs);
    }
    if (manifest->parent.empty()) return;
    const std::string parent = m_store.image(manifest->parent).filename().string();
    need(TreeKind::image, parent, needs);
    add_needs(parent, needs);
  }

  void need(TreeKind kind, const std::string& name, std::set<std::size_t>& needs) {
    const auto found = m_by_name.find({kind, name});
    if (found != m_by_name.end()) needs.insert(found->second.begin(), found->second.end());
  }

  struct PairHash {
    std::size_t operator()(const std::pair<dev_t, ino_t>& file) const {
      return std::hash<ino_t>()(file.second) ^ (std::hash<dev_t>()(file.first) << 1U);
    }
  };
  const Store& m_store;
  Inventory m_inventory;
  std::unordered_map<std::pair<dev_t, ino_t>, std::uint32_t, PairHash> m_numbers;
  std::map<std::pair<TreeKind, std::string>, std::vector<std::size_t>> m_by_name;
};

}  // namespace

Inventory take_inventory(const Store& store) {
  return Taking(store).take();
}

}  // namespace startrail::image
