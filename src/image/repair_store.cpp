// Taking damage out of the store, so that the next build makes it anew.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include <sys/stat.h>

#include "base/clock.hpp"
#include "image/image_folder.hpp"
#include "image/oci/names.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/verify_store.hpp"

namespace startrail::image {
namespace {

using Kind = StoreFault::Kind;

// A run is in the list of live ones this soon after its image was found.
constexpr auto k_about_to_start = std::chrono::seconds(10);

class Repair {
 public:
  Repair(const Store& store, const RepairOptions& options, Reporter& reporter)
      : m_store(store), m_options(options), m_reporter(reporter) {}

  Result<RepairResult> run() {
    read_images();
    for (StoreFault& fault : TRY(find_faults(m_store, m_reporter))) {
      const bool repaired = TRY(repair(fault));
      (repaired ? m_result.repaired : m_result.left).push_back(std::move(fault));
    }
    // An image goes before what it is made from: a kill between the two must not leave an image without its wheels.
    for (const std::string& id : m_doomed_images) {
      m_reporter.step(fmt::format("removing image {}", id.substr(0, 12)));
      TRY(m_store.discard(m_store.image(id)));
      m_result.images.push_back(id);
    }
    for (const fs::path& tree : m_doomed) TRY(discard_if_there(tree));
    TRY(forget_lost_names(m_store));
    return std::move(m_result);
  }

 private:
  void read_images() {
    for (const std::string& id : m_options.keep_images) m_live.insert(m_store.image(id).filename().string());
    for (const std::string& id : image_ids(m_store)) {
      if (base::now() - last_used(m_store, id) < k_about_to_start) m_live.insert(id);
      if (auto manifest = read_manifest(m_store, id)) m_images.emplace(id, std::move(*manifest));
      for (const std::string& diff_id : pulled_layers(m_store, id))
        m_layers[m_store.layer(diff_id).filename().string()].insert(id);
    }
    for (const std::string& id : std::set(m_live))
      if (const auto image = m_images.find(id); image != m_images.end() && !image->second.parent.empty())
        m_live.insert(m_store.image(image->second.parent).filename().string());
  }

  // True when the fault is gone, or goes with what is doomed now; false when a live run stands in the way.
  Result<bool> repair(const StoreFault& fault) {
    if (fault.kind == Kind::mode) {
      if (::chmod(fault.path.c_str(), fault.right_mode) == 0) return true;
      return base::fail(base::errno_error(fmt::format("cannot set the mode of {}", fault.path.string()), errno));
    }
    if (fault.kind != Kind::damaged) {
      TRY(base::remove_tree(fault.path));
      return true;
    }
    const std::set<std::string> users = users_of(fault.owner);
    if (std::ranges::any_of(users, [&](const std::string& id) { return m_live.contains(id); })) return false;
    if (is_layer(fault.owner)) {
      m_doomed.insert(fault.owner);
      return true;
    }
    if (kind_of(fault.owner) == "bytecode") {
      for (const std::string& id : users) m_doomed.insert(m_store.image(id) / "bytecode");
    } else {
      m_doomed_images.insert(users.begin(), users.end());
    }
    if (kind_of(fault.owner) != "images") m_doomed.insert(fault.owner);
    return true;
  }

  static std::string kind_of(const fs::path& owner) { return owner.parent_path().filename().string(); }
  // images/<id>/bytecode
  static bool is_layer(const fs::path& owner) { return kind_of(owner.parent_path()) == "images"; }

  // The images that have this tree in them, or below them.
  std::set<std::string> users_of(const fs::path& owner) const {
    std::set<std::string> users;
    const std::string kind = is_layer(owner) ? "images" : kind_of(owner);
    const std::string name = (is_layer(owner) ? owner.parent_path() : owner).filename().string();
    if (kind == "images") users.insert(name);
    if (kind == "layers")
      if (const auto layer = m_layers.find(name); layer != m_layers.end()) users = layer->second;
    for (const auto& [id, manifest] : m_images) {
      const bool has_wheel = std::ranges::any_of(
          manifest.wheels, [&](const ManifestWheel& wheel) { return name.starts_with(wheel.sha256); });
      if (kind == "bases" ? manifest.base_digest == name : kind != "images" && has_wheel) users.insert(id);
    }
    for (const auto& [id, manifest] : m_images)
      if (!manifest.parent.empty() && users.contains(m_store.image(manifest.parent).filename().string()))
        users.insert(id);
    return users;
  }

  Result<void> discard_if_there(const fs::path& tree) const {
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(tree, ignored))) return {};
    return m_store.discard(tree);
  }

  const Store& m_store;
  const RepairOptions& m_options;
  Reporter& m_reporter;
  RepairResult m_result;
  std::map<std::string, Manifest> m_images;
  std::map<std::string, std::set<std::string>> m_layers;  // folder's name → images
  std::set<std::string> m_live, m_doomed_images;
  std::set<fs::path> m_doomed;
};

}  // namespace

Result<RepairResult> repair_store(const fs::path& store_path, const RepairOptions& options, Reporter& reporter) {
  const Store store = TRY(Store::open(store_path));
  const base::Fd alone = TRY(store.alone(std::chrono::seconds(10)));
  return Repair(store, options, reporter).run();
}

}  // namespace startrail::image
