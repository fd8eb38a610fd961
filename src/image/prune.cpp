// Taking out of the store what nothing needs: first what goes is decided, then it goes.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json.hpp"
#include "image/image_folder.hpp"
#include "image/oci/names.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/store_inventory.hpp"
#include "image/system_store.hpp"
#include "image/verify_store.hpp"

namespace startrail::image {
namespace {

// An image that was opened a moment ago may be about to start: its run isn't in anybody's list yet.
constexpr auto k_fresh = std::chrono::seconds(60);

// A store from which images are taken, in numbers only: what goes with each, and how large the rest is.
class Shrinking {
 public:
  explicit Shrinking(const Inventory& inventory)
      : m_inventory(inventory), m_gone(inventory.trees.size(), false), m_image_gone(inventory.images.size(), false) {
    for (const StoredFile& file : inventory.files) {
      m_names_left.push_back(file.names_here);
      m_size += file.size;
    }
    for (const StoredTree& tree : inventory.trees) m_needed_by.push_back(tree.needed_by.size());
  }

  [[nodiscard]] Bytes size() const { return {m_size}; }
  [[nodiscard]] Bytes freed() const { return {m_freed}; }
  [[nodiscard]] bool is_gone(std::size_t image) const { return m_image_gone[image]; }
  // Indices of trees in the order in which they went.
  [[nodiscard]] const std::vector<std::size_t>& gone_trees() const { return m_order; }
  [[nodiscard]] const std::vector<std::size_t>& gone_images() const { return m_image_order; }

  // An image that another one stands on stays.
  [[nodiscard]] bool is_below_another(std::size_t image) const {
    return m_needed_by[m_inventory.images[image].tree] > 1;
  }

  void take_image(std::size_t image) {
    m_image_gone[image] = true;
    m_image_order.push_back(image);
    // Its own tree first: whoever is interrupted leaves wheels that no image has, not an image without its wheels.
    const std::size_t own = m_inventory.images[image].tree;
    release(own);
    for (const std::size_t tree : m_inventory.images[image].needs)
      if (tree != own) release(tree);
  }

  // It stays, whatever needs it or not.
  void pin(std::size_t tree) { m_pinned.insert(tree); }

  void take_tree(std::size_t tree) {
    if (m_gone[tree] || m_pinned.contains(tree)) return;
    m_gone[tree] = true;
    m_order.push_back(tree);
    for (const std::uint32_t number : m_inventory.trees[tree].files) {
      if (--m_names_left[number] > 0) continue;
      const StoredFile& file = m_inventory.files[number];
      m_size -= file.size;
      if (file.names == file.names_here) m_freed += file.size;
    }
  }

 private:
  void release(std::size_t tree) {
    if (--m_needed_by[tree] == 0) take_tree(tree);
  }

  const Inventory& m_inventory;
  std::vector<std::uint32_t> m_names_left;
  std::vector<std::size_t> m_needed_by, m_order, m_image_order;
  std::vector<bool> m_gone, m_image_gone;
  std::set<std::size_t> m_pinned;
  std::uint64_t m_size = 0, m_freed = 0;
};

class Pruning {
 public:
  Pruning(const Store& store, const PruneOptions& options, Reporter& reporter)
      : m_store(store),
        m_options(options),
        m_reporter(reporter),
        m_inventory(take_inventory(store)),
        m_shrinking(m_inventory) {}

  Result<PruneResult> run() {
    m_protected = protected_ids();
    for (std::size_t tree = 0; tree < m_inventory.trees.size(); ++tree)
      if (kind_of(tree) == TreeKind::base && is_held(m_inventory.trees[tree].path)) m_shrinking.pin(tree);
    take_unused_images();
    if (m_options.everything_unused) take_unneeded();
    if (m_options.keep) shrink_to(*m_options.keep);
    if (m_options.mode == PruneMode::remove) TRY(remove());
    return result();
  }

 private:
  // Images of live runs, also of other users who take from this store, and those of runs that may be about to start;
  // with the images that they stand on.
  [[nodiscard]] std::set<std::string> protected_ids() const {
    std::set<std::string> ids;
    for (const std::string& id : m_options.keep_images) ids.insert(m_store.image(id).filename().string());
    for (const StoredImage& image : m_inventory.images)
      if (base::now() - image.last_used < k_fresh || is_held(m_store.image(image.id))) ids.insert(image.id);
    for (const std::string& id : std::set(ids))
      if (const auto manifest = read_manifest(m_store, id); manifest && !manifest->parent.empty())
        ids.insert(m_store.image(manifest->parent).filename().string());
    return ids;
  }

  [[nodiscard]] std::vector<std::size_t> least_recently_used_first() const {
    std::vector<std::size_t> order(m_inventory.images.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    // One that others stand on after them: it is used whenever one of them is.
    std::ranges::stable_sort(order, {}, [&](std::size_t i) {
      return std::pair(m_inventory.images[i].last_used, m_shrinking.is_below_another(i));
    });
    return order;
  }

  [[nodiscard]] bool may_go(std::size_t image) const {
    return !m_shrinking.is_gone(image) && !m_protected.contains(m_inventory.images[image].id) &&
           !m_shrinking.is_below_another(image);
  }

  [[nodiscard]] bool is_unused(std::size_t image) const {
    if (m_options.unused_for) return base::now() - m_inventory.images[image].last_used >= *m_options.unused_for;
    return !m_options.keep;
  }

  void take_unused_images() {
    for (const std::size_t image : least_recently_used_first())
      if (is_unused(image) && may_go(image)) m_shrinking.take_image(image);
  }

  void take_unneeded() {
    for (std::size_t i = 0; i < m_inventory.trees.size(); ++i) {
      const StoredTree& tree = m_inventory.trees[i];
      if (tree.kind != TreeKind::other && tree.kind != TreeKind::image && tree.needed_by.empty())
        m_shrinking.take_tree(i);
    }
  }

  void shrink_to(Bytes limit) {
    if (m_shrinking.size() > limit) take_unneeded();
    for (const std::size_t image : least_recently_used_first()) {
      if (m_shrinking.size() <= limit) return;
      if (may_go(image)) m_shrinking.take_image(image);
    }
  }

  Result<void> remove() {
    // Images go before what they were made from, so that an interrupted call leaves no image that lacks something.
    std::vector<std::size_t> order = m_shrinking.gone_trees();
    std::ranges::stable_partition(order, [&](std::size_t i) { return kind_of(i) == TreeKind::image; });
    for (const std::size_t tree : order) {
      const fs::path& path = m_inventory.trees[tree].path;
      const auto alone = hold_alone(path);
      if (!alone) {  // a run of another user's began since it was chosen
        m_in_use.insert(tree);
        continue;
      }
      if (kind_of(tree) == TreeKind::image)
        m_reporter.step(fmt::format("removing image {}", path.filename().string().substr(0, 12)));
      TRY(m_store.discard(path));
    }
    if (m_options.everything_unused)
      for (const fs::path& entry : entries_of(m_store.folder("exported"))) TRY(m_store.discard(entry));
    TRY(forget_builds());
    TRY(forget_recipes());
    return forget_lost_names(m_store);
  }

  Result<void> forget_builds() {
    for (const fs::path& entry : entries_of(m_store.folder("built"))) {
      const auto json = base::read_json_file(entry);
      if (!json || !m_store.has_wheel(base::string_at(*json, "wheel"))) TRY(m_store.discard(entry));
    }
    return {};
  }

  Result<void> forget_recipes() {
    const fs::path bases = m_store.folder("bases");
    for (const fs::path& entry : entries_of(bases)) {
      if (!entry.filename().string().starts_with("recipe-")) continue;
      std::string digest = base::read_file(entry).value_or("");
      while (digest.ends_with('\n')) digest.pop_back();
      std::error_code ignored;
      if (!fs::exists(bases / digest, ignored)) TRY(m_store.discard(entry));
    }
    return {};
  }

  [[nodiscard]] TreeKind kind_of(std::size_t tree) const { return m_inventory.trees[tree].kind; }

  [[nodiscard]] PruneResult result() const {
    PruneResult result{.freed = m_shrinking.freed(), .size = m_shrinking.size(), .image_ids = {}};
    for (const std::size_t image : m_shrinking.gone_images())
      if (!m_in_use.contains(m_inventory.images[image].tree))
        result.image_ids.push_back("sha256:" + m_inventory.images[image].id);
    for (const std::size_t tree : m_shrinking.gone_trees()) {
      if (m_in_use.contains(tree)) continue;
      if (kind_of(tree) == TreeKind::image) ++result.images;
      if (kind_of(tree) == TreeKind::wheel) ++result.wheels;
      if (kind_of(tree) == TreeKind::base) ++result.bases;
    }
    return result;
  }

  const Store& m_store;
  const PruneOptions& m_options;
  Reporter& m_reporter;
  const Inventory m_inventory;
  Shrinking m_shrinking;
  std::set<std::string> m_protected;
  std::set<std::size_t> m_in_use;  // of those that were to go
};

}  // namespace

Result<PruneResult> prune(const fs::path& store_path, const PruneOptions& options, Reporter& reporter) {
  const Store store = TRY(Store::open(store_path));
  const base::Fd held = TRY(options.mode == PruneMode::remove ? store.alone(std::chrono::seconds(10)) : store.use());
  return Pruning(store, options, reporter).run();
}

}  // namespace startrail::image
