// What the images take of the disk, each by itself and all together.
#include <algorithm>
#include <optional>

#include "image/image.hpp"
#include "image/oci/names.hpp"
#include "image/store_inventory.hpp"

namespace startrail::image {
namespace {

// Whose a file is: of one image alone when everything that has it is needed by that image and by no other.
class Owners {
 public:
  explicit Owners(const Inventory& inventory) : m_owners(inventory.files.size(), k_unseen) {
    for (const StoredTree& tree : inventory.trees)
      for (const std::uint32_t file : tree.files) m_owners[file] = joined(m_owners[file], owner_of(tree));
  }

  [[nodiscard]] bool is_own(std::uint32_t file, std::size_t image) const {
    return m_owners[file] == static_cast<std::int64_t>(image);
  }
  [[nodiscard]] bool is_unneeded(std::uint32_t file) const { return m_owners[file] == k_nobody; }

 private:
  static constexpr std::int64_t k_unseen = -1, k_nobody = -2, k_several = -3;

  static std::int64_t owner_of(const StoredTree& tree) {
    // Folders of the store, locks, names: they stay when all else goes.
    if (tree.kind == TreeKind::other) return k_several;
    if (tree.needed_by.empty()) return k_nobody;
    return tree.needed_by.size() == 1 ? static_cast<std::int64_t>(tree.needed_by.front()) : k_several;
  }
  static std::int64_t joined(std::int64_t a, std::int64_t b) {
    if (a == k_unseen || a == b) return b;
    return k_several;
  }

  std::vector<std::int64_t> m_owners;
};

class Measuring {
 public:
  explicit Measuring(const Inventory& inventory)
      : m_inventory(inventory), m_owners(inventory), m_counted(inventory.files.size(), 0) {}

  DiskUsage measure(const ImageNames& names) {
    DiskUsage usage;
    for (std::size_t i = 0; i < m_inventory.images.size(); ++i) usage.images.push_back(image(i, names));
    std::ranges::sort(usage.images, std::greater<>(), &ImageUsage::own);
    ++m_round;
    // What several have is counted where it comes from: an image's tree is hard links into wheels.
    for (const TreeKind kind : {TreeKind::wheel, TreeKind::layer, TreeKind::base, TreeKind::bytecode, TreeKind::image,
                                TreeKind::unfinished, TreeKind::other})
      add_kind(kind, usage);
    return usage;
  }

 private:
  ImageUsage image(std::size_t number, const ImageNames& names) {
    const StoredImage& image = m_inventory.images[number];
    ImageUsage usage{.id = "sha256:" + image.id, .name = name_of_image(names, image.id), .last_used = image.last_used};
    ++m_round;
    for (const std::size_t tree : image.needs) {
      for (const std::uint32_t file : m_inventory.trees[tree].files) {
        if (!first_time(file)) continue;
        const StoredFile& details = m_inventory.files[file];
        usage.size += Bytes{details.size};
        if (m_owners.is_own(file, number) && details.names == details.names_here) usage.own += Bytes{details.size};
      }
    }
    return usage;
  }

  void add_kind(TreeKind kind, DiskUsage& usage) {
    for (const StoredTree& tree : m_inventory.trees) {
      if (tree.kind != kind) continue;
      for (const std::uint32_t file : tree.files) {
        if (!first_time(file)) continue;
        const Bytes size{m_inventory.files[file].size};
        part(kind, usage) += size;
        usage.total += size;
        if (m_owners.is_unneeded(file)) usage.unneeded += size;
      }
    }
  }

  static Bytes& part(TreeKind kind, DiskUsage& usage) {
    switch (kind) {
      case TreeKind::wheel: return usage.wheels;
      case TreeKind::layer: return usage.layers;
      case TreeKind::base: return usage.bases;
      case TreeKind::bytecode: return usage.bytecode;
      case TreeKind::image: return usage.trees;
      case TreeKind::unfinished: return usage.unfinished;
      case TreeKind::other: break;
    }
    return usage.other;
  }

  bool first_time(std::uint32_t file) {
    if (m_counted[file] == m_round) return false;
    m_counted[file] = m_round;
    return true;
  }

  const Inventory& m_inventory;
  const Owners m_owners;
  std::vector<std::uint32_t> m_counted;  // the round in which a file was counted last
  std::uint32_t m_round = 0;
};

}  // namespace

Result<DiskUsage> disk_usage(const fs::path& store_path) {
  const Store store = Store::at(store_path);
  const Inventory inventory = take_inventory(store);
  return Measuring(inventory).measure(image_names(store));
}

}  // namespace startrail::image
