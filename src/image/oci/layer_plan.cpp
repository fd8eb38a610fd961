#include "image/oci/layer_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/base_system.hpp"
#include "image/environment_tree.hpp"
#include "image/oci/layer_contents.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {
namespace {

using Items = std::vector<LayerItem>;

Result<LayerItem> item_of(const fs::path& file, std::string path) {
  struct stat status{};
  if (::lstat(file.c_str(), &status) != 0)
    return base::fail(base::errno_error(fmt::format("cannot read {}", file.string()), errno));
  LayerItem result{.item = {.path = std::move(path), .target = {}, .mode = status.st_mode & 07777U}, .file = file};
  if (S_ISDIR(status.st_mode)) {
    result.item.kind = TarItem::Kind::folder;
  } else if (S_ISLNK(status.st_mode)) {
    std::error_code failed;
    result.item.kind = TarItem::Kind::symlink;
    result.item.target = fs::read_symlink(file, failed).string();
    result.item.mode = 0777;
  } else {
    result.item.size = static_cast<std::uint64_t>(status.st_size);
  }
  return result;
}

Result<Items> items_below(const fs::path& root) {
  Items items;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(root, failed), end; !failed && at != end; at.increment(failed))
    items.push_back(TRY(item_of(at->path(), at->path().lexically_relative(root).string())));
  if (failed)
    return base::fail(ErrorCode::internal, fmt::format("cannot walk {}: {}", root.string(), failed.message()));
  std::ranges::sort(items, {}, [](const LayerItem& item) -> const std::string& { return item.item.path; });
  return items;
}

// "lib/__pycache__/module.cpython-311.pyc" → "lib/module.py" (PEP 3147); "" for anything else.
std::string source_of_bytecode(const std::string& path) {
  constexpr std::string_view k_cache = "__pycache__/";
  const std::size_t slash = path.rfind('/');
  if (!path.ends_with(".pyc") || slash == std::string::npos || slash + 1 < k_cache.size()) return "";
  const std::size_t folder = slash + 1 - k_cache.size();
  if (std::string_view(path).substr(folder, k_cache.size()) != k_cache) return "";
  const std::string name = path.substr(slash + 1);
  const std::size_t tag = name.find('.');
  if (tag + 4 >= name.size()) return "";
  return path.substr(0, folder) + name.substr(0, tag) + ".py";
}

// The time of its source that a .pyc was made with, if it is checked by that (PEP 552: flags, then the time).
std::optional<std::int64_t> time_in_bytecode(const fs::path& file) {
  const base::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::array<unsigned char, 12> head{};
  if (!fd.valid() || ::pread(fd.get(), head.data(), head.size(), 0) != static_cast<ssize_t>(head.size()))
    return std::nullopt;
  const auto word = [&](std::size_t at) {
    return static_cast<std::uint32_t>(head[at]) | static_cast<std::uint32_t>(head[at + 1]) << 8U |
           static_cast<std::uint32_t>(head[at + 2]) << 16U | static_cast<std::uint32_t>(head[at + 3]) << 24U;
  };
  if (word(4) != 0) return std::nullopt;
  return word(8);
}

// Times are left out of layers, but for one use: an interpreter takes a .pyc only if its source has the time that it
// tells. That time is content, the same on every machine.
Items with_times(Items items) {
  std::unordered_map<std::string, std::int64_t> times;
  for (const LayerItem& item : items)
    if (const std::string source = source_of_bytecode(item.item.path); !source.empty())
      if (const auto time = time_in_bytecode(item.file)) times.emplace(source, *time);
  for (LayerItem& item : items)
    if (const auto time = times.find(item.item.path); time != times.end()) item.item.modified = time->second;
  return items;
}

// One image's environment, as files that belong to its wheels and files that belong to nobody.
class Environment {
 public:
  Environment(const Store& store, std::string id, const Manifest& manifest)
      : m_store(store),
        m_prefix(image_tree(store, id) / k_prefix),
        m_root(image_tree(store, id)),
        m_manifest(manifest) {}

  Result<std::vector<PlannedLayer>> layers() {
    for (const ManifestWheel& wheel : m_manifest.wheels)
      m_trees.push_back(TRY(read_wheel_tree(m_store.wheel(wheel.sha256))));
    for (std::size_t i = 0; i < m_trees.size(); ++i) claim(i);
    std::vector<PlannedLayer> planned;
    std::set<std::string> taken;
    for (const std::size_t wheel : big_wheels()) {
      Items items = TRY(items_of_wheel(wheel, taken));
      planned.push_back(TRY(plan(fmt::format("{} {}", m_trees[wheel].name, m_trees[wheel].version), std::move(items))));
    }
    Items left = TRY(rest(taken));
    planned.push_back(TRY(plan("environment", std::move(left))));
    return planned;
  }

 private:
  struct Owner {
    std::size_t wheel;
    std::string name;
    const TreeFile* file;
  };

  // As EnvironmentTree decides: the alphabetically last one has the place.
  void claim(std::size_t wheel) {
    const WheelTree& tree = m_trees[wheel];
    const std::string name = normalized_name(tree.name);
    const bool own_record =
        !own_files(tree, m_manifest.python, {.direct_url = m_manifest.wheels[wheel].direct_url}).empty();
    for (const TreeFile& file : tree.files) {
      if (own_record && file.path == "site/" + tree.dist_info + "/RECORD") continue;
      const std::string path = environment_path(file.path, m_manifest.python, tree.name);
      const auto [place, added] = m_owners.emplace(path, Owner{wheel, name, &file});
      if (!added && name > place->second.name) place->second = {wheel, name, &file};
    }
  }

  std::vector<std::size_t> big_wheels() const {
    std::vector<std::size_t> big;
    for (std::size_t i = 0; i < m_trees.size(); ++i)
      if (m_trees[i].size >= k_big_wheel) big.push_back(i);
    std::ranges::sort(big, {}, [&](std::size_t wheel) { return normalized_name(m_trees[wheel].name); });
    return big;
  }

  Result<Items> items_of_wheel(std::size_t wheel, std::set<std::string>& taken) const {
    Items items;
    std::set<std::string> folders;
    for (const TreeFile& file : m_trees[wheel].files) {
      const std::string path = environment_path(file.path, m_manifest.python, m_trees[wheel].name);
      const auto owner = m_owners.find(path);
      if (owner == m_owners.end() || owner->second.file != &file) continue;
      const std::string place = fmt::format("{}/{}", k_prefix, path);
      items.push_back(TRY(item_of(m_prefix / path, place)));
      taken.insert(place);
      for (std::size_t slash = place.rfind('/'); slash != std::string::npos; slash = place.rfind('/', slash - 1))
        if (!folders.insert(place.substr(0, slash)).second) break;
    }
    for (const std::string& folder : folders) items.push_back(TRY(item_of(m_root / folder, folder)));
    std::ranges::sort(items, {}, [](const LayerItem& item) -> const std::string& { return item.item.path; });
    return items;
  }

  Result<Items> rest(const std::set<std::string>& taken) const {
    Items items = TRY(items_below(m_root));
    std::erase_if(items, [&](const LayerItem& item) { return taken.contains(item.item.path); });
    return items;
  }

  // The key is a listing: digests are known for what wheels bring, the rest is small.
  Result<PlannedLayer> plan(std::string title, Items items) const {
    PlannedLayer layer{.title = std::move(title), .key = {}, .items = {}};
    base::Sha256 hash;
    for (const LayerItem& item : items) {
      const std::string content = TRY(content_of(item));
      hash.update(
          fmt::format("{} {:o} {} {}\n", static_cast<int>(item.item.kind), item.item.mode, item.item.path, content));
      layer.size += item.item.size;
    }
    layer.key = "files " + base::to_hex(hash.finish());
    const auto kept = std::make_shared<const Items>(std::move(items));
    layer.items = [kept]() -> Result<Items> { return with_times(*kept); };
    return layer;
  }

  Result<std::string> content_of(const LayerItem& item) const {
    if (item.item.kind == TarItem::Kind::symlink) return item.item.target;
    if (item.item.kind != TarItem::Kind::file) return std::string();
    const std::string below =
        item.item.path.substr(std::min(item.item.path.size(), std::string_view(k_prefix).size() + 1));
    const auto owner = m_owners.find(below);
    if (owner != m_owners.end()) return base::to_hex(owner->second.file->digest);
    return base::sha256_file_hex(item.file);
  }

  const Store& m_store;
  fs::path m_prefix, m_root;
  const Manifest& m_manifest;
  std::vector<WheelTree> m_trees;
  std::unordered_map<std::string, Owner> m_owners;  // by the place below /opt/env
};

Result<PlannedLayer> base_layer(const Store& store, const Manifest& manifest, const std::string& suite) {
  const auto base = find_base_by_digest(store.root(), manifest.base_recipe, manifest.base_digest);
  if (!base)
    return base::fail(base::error(ErrorCode::not_found, "the base system of this image is gone")
                          .with_hint("make the image again: trail image build"));
  return PlannedLayer{.title = "Debian " + suite,
                      .key = "base " + manifest.base_digest,
                      .size = base->size.count,
                      .items = [root = base->root]() -> Result<Items> {
                        Items items = TRY(items_below(root));
                        return with_times(std::move(items));
                      }};
}

std::string whiteout_path(const LayerEntry& entry) {
  const fs::path path(entry.path);
  if (entry.kind == LayerEntry::Kind::opaque) return (path / ".wh..wh..opq").string();
  return (path.parent_path() / (".wh." + path.filename().string())).string();
}

LayerItem item_from(const Store& store, const std::string& diff_id, const LayerEntry& entry) {
  using Kind = LayerEntry::Kind;
  LayerItem item{.item = {.path = entry.path,
                          .target = entry.target,
                          .size = entry.size,
                          .mode = entry.mode,
                          .modified = entry.modified}};
  switch (entry.kind) {
    case Kind::file: item.file = layer_file(store, diff_id, entry.number); break;
    case Kind::folder: item.item.kind = TarItem::Kind::folder; break;
    case Kind::symlink:
      item.item.kind = TarItem::Kind::symlink;
      item.item.mode = 0777;
      break;
    case Kind::hard_link: item.item.kind = TarItem::Kind::hard_link; break;
    case Kind::whiteout:
    case Kind::opaque: item.item.path = whiteout_path(entry); item.item.mode = 0644;
  }
  return item;
}

// In the order in which they came: it may matter, and of our own layers it is ours.
Result<PlannedLayer> pulled_layer(const Store& store, const std::string& diff_id, const std::string& title) {
  const LayerContents contents = TRY(read_contents(store, diff_id));
  return PlannedLayer{.title = title.empty() ? "layer " + diff_id.substr(0, 19) : title,
                      .key = "layer " + diff_id,
                      .size = contents.size,
                      .items = [store, diff_id]() -> Result<Items> {
                        Items items;
                        const LayerContents again = TRY(read_contents(store, diff_id));
                        for (const LayerEntry& entry : again.entries) items.push_back(item_from(store, diff_id, entry));
                        return items;
                      }};
}

void append(std::vector<PlannedLayer>& layers, std::vector<PlannedLayer> more) {
  std::ranges::move(more, std::back_inserter(layers));
}

Result<void> append_pulled(std::vector<PlannedLayer>& layers, const Store& store, const std::string& id) {
  const auto diff_ids = pulled_layers(store, id);
  const auto titles = pulled_titles(store, id);
  for (std::size_t i = 0; i < diff_ids.size(); ++i) layers.push_back(TRY(pulled_layer(store, diff_ids[i], titles[i])));
  return {};
}

}  // namespace

Result<std::vector<PlannedLayer>> plan_layers(const Store& store, const std::string& id, const Manifest& manifest) {
  std::vector<PlannedLayer> layers;
  if (!manifest.is_foreign()) {
    const auto details = base::read_json_file(store.image(id) / "details.json");
    layers.push_back(TRY(base_layer(store, manifest, details ? base::string_at(*details, "suite") : "")));
  }
  if (is_pulled(store, id)) {
    TRY(append_pulled(layers, store, id));
    return layers;
  }
  if (!manifest.parent.empty()) {
    if (is_pulled(store, manifest.parent)) {
      TRY(append_pulled(layers, store, manifest.parent));
    } else {
      const Manifest parent = TRY(read_manifest(store, manifest.parent));
      append(layers, TRY(Environment(store, manifest.parent, parent).layers()));
    }
  }
  append(layers, TRY(Environment(store, id, manifest).layers()));
  return layers;
}

}  // namespace startrail::image
