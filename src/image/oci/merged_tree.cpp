#include "image/oci/merged_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "image/beneath.hpp"
#include "image/environment_tree.hpp"
#include "image/tree_listing.hpp"

namespace startrail::image {
namespace {

using Node = MergedTree::Node;
using Kind = LayerEntry::Kind;

constexpr int k_most_links = 40;        // as Linux follows in one path
constexpr std::size_t k_deepest = 512;  // folders in each other
constexpr std::size_t k_most_nodes = 4'000'000;

std::deque<std::string> parts_of(const std::string& path) {
  std::deque<std::string> parts;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    if (end > start) parts.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::unexpected<Error> unsafe(const std::string& path, std::string_view why) {
  return base::fail(ErrorCode::unsafe_path, fmt::format("'{}' in the layer {}", path, why));
}

enum class Missing { make, refuse };

// The layer that is laid upon `root` just now.
struct Laying {
  Node& root;
  std::size_t& nodes;
  const std::string& diff_id;
  std::size_t layer;
};

Result<void> count_node(const Laying& laying) {
  if (++laying.nodes <= k_most_nodes) return {};
  return base::fail(ErrorCode::no_space, fmt::format("with the layer {} the image has more than {} files and folders",
                                                     laying.diff_id.substr(0, 19), k_most_nodes));
}

// The folder that a path leads to in this tree. Links are followed as the kernel would with this root. `entry` is what
// the path is wanted for.
Result<Node*> folder_at(const Laying& laying, const std::string& path, const LayerEntry& entry, Missing missing) {
  std::deque<std::string> ahead = parts_of(path);
  std::vector<Node*> way{&laying.root};
  for (int links = 0; !ahead.empty();) {
    const std::string name = std::move(ahead.front());
    ahead.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      if (way.size() > 1) way.pop_back();
      continue;
    }
    auto found = way.back()->children.find(name);
    if (found == way.back()->children.end()) {
      if (missing == Missing::refuse) return nullptr;
      if (way.size() > k_deepest) return unsafe(entry.path, "lies too deep");
      TRY(count_node(laying));
      found = way.back()->children.emplace(name, Node{.layer = laying.layer}).first;
    }
    Node& node = found->second;
    if (node.kind == Node::Kind::file) {
      if (missing == Missing::refuse) return nullptr;
      return unsafe(entry.path, "lies below a file");
    }
    if (node.kind == Node::Kind::folder) {
      way.push_back(&node);
      continue;
    }
    if (++links > k_most_links) return unsafe(entry.path, "leads through links in a circle");
    if (node.target.starts_with('/')) way.resize(1);
    const auto target = parts_of(node.target);
    ahead.insert(ahead.begin(), target.begin(), target.end());
  }
  return way.back();
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

// What layers below this one brought goes; true when nothing is left of the node itself.
bool remove_lower(Node& node, std::size_t layer) {
  for (auto child = node.children.begin(); child != node.children.end();)
    child = remove_lower(child->second, layer) ? node.children.erase(child) : std::next(child);
  return node.layer < layer && node.children.empty();
}

Node node_of(const LayerEntry& entry, const std::string& diff_id, std::size_t layer) {
  Node node{.mode = entry.mode, .modified = entry.modified, .layer = layer};
  if (entry.kind == Kind::file) {
    node.kind = Node::Kind::file;
    node.content_layer = diff_id;
    node.number = entry.number;
    node.size = entry.size;
    node.digest = entry.digest;
  }
  if (entry.kind == Kind::symlink) {
    node.kind = Node::Kind::symlink;
    node.target = entry.target;
  }
  return node;
}

Result<void> apply_hard_link(const Laying& laying, Node& folder, const std::string& name, const LayerEntry& entry) {
  const auto [parent, last] = split(entry.target);
  const Node* const from = TRY(folder_at(laying, parent, entry, Missing::refuse));
  const auto found = from == nullptr ? folder.children.end() : from->children.find(last);
  if (from == nullptr || found == from->children.end())
    return base::fail(ErrorCode::corrupt,
                      fmt::format("'{}' is a hard link to '{}', which is not there", entry.path, entry.target));
  if (found->second.kind == Node::Kind::folder)
    return unsafe(entry.path, fmt::format("is a hard link to the folder '{}'", entry.target));
  Node copy = found->second;
  copy.layer = laying.layer;
  const bool is_new = folder.children.insert_or_assign(name, std::move(copy)).second;
  return is_new ? count_node(laying) : Result<void>();
}

Result<void> apply_entry(const Laying& laying, const LayerEntry& entry) {
  if (entry.kind == Kind::opaque) {
    Node* const folder = TRY(folder_at(laying, entry.path, entry, Missing::make));
    (void)remove_lower(*folder, laying.layer);
    return {};
  }
  const auto [parent, name] = split(entry.path);
  if (name.empty() || name == "." || name == "..") return unsafe(entry.path, "names nothing");
  Node& folder = *TRY(folder_at(laying, parent, entry, Missing::make));
  const auto found = folder.children.find(name);
  if (entry.kind == Kind::whiteout) {
    if (found != folder.children.end() && remove_lower(found->second, laying.layer)) folder.children.erase(found);
    return {};
  }
  if (entry.kind == Kind::hard_link) return apply_hard_link(laying, folder, name, entry);
  Node node = node_of(entry, laying.diff_id, laying.layer);
  if (entry.kind == Kind::folder && found != folder.children.end() && found->second.kind == Node::Kind::folder)
    node.children = std::move(found->second.children);
  const bool is_new = folder.children.insert_or_assign(name, std::move(node)).second;
  return is_new ? count_node(laying) : Result<void>();
}

template <class Visit>
Result<void> walk(const Node& folder, const std::string& path, Visit&& visit) {
  for (const auto& [name, node] : folder.children) {
    const std::string place = path.empty() ? name : path + "/" + name;
    TRY(visit(place, node));
    TRY(walk(node, place, visit));
  }
  return {};
}

// Links into the layers of the store, each opened once.
class Maker {
 public:
  Maker(const Store& store, const Beneath& root) : m_store(store), m_root(root) {}

  Result<void> make(const std::string& path, const Node& node) {
    switch (node.kind) {
      case Node::Kind::folder: return make_folder(path, node);
      case Node::Kind::symlink: return make_symlink(path, node);
      case Node::Kind::file: return make_file(path, node);
    }
    return {};
  }

  // Last, innermost first: a folder without its write bit takes nothing new.
  Result<void> set_folder_modes() {
    for (auto folder = m_folders.rbegin(); folder != m_folders.rend(); ++folder) {
      const auto place = TRY(m_root.place_of(folder->first));
      if (::fchmodat(place.folder.get(), place.name.c_str(), folder->second, 0) != 0)
        return base::fail(base::errno_error("cannot set the mode of " + folder->first, errno));
    }
    return {};
  }

 private:
  Result<void> make_folder(const std::string& path, const Node& node) {
    TRY(m_root.make_folder(path));
    if (node.mode != 0755) m_folders.emplace_back(path, node.mode);
    return {};
  }

  Result<void> make_symlink(const std::string& path, const Node& node) {
    const auto place = TRY(m_root.place_of(path));
    if (::symlinkat(node.target.c_str(), place.folder.get(), place.name.c_str()) != 0)
      return base::fail(base::errno_error("cannot create " + path, errno));
    const timespec times[2] = {{.tv_sec = node.modified, .tv_nsec = 0}, {.tv_sec = node.modified, .tv_nsec = 0}};
    (void)::utimensat(place.folder.get(), place.name.c_str(), times, AT_SYMLINK_NOFOLLOW);
    return {};
  }

  Result<void> make_file(const std::string& path, const Node& node) {
    auto layer = m_layers.find(node.content_layer);
    if (layer == m_layers.end()) {
      base::Fd opened = TRY(base::open_file(m_store.layer(node.content_layer) / "files", O_RDONLY | O_DIRECTORY));
      layer = m_layers.emplace(node.content_layer, std::move(opened)).first;
    }
    const auto place = TRY(m_root.place_of(path));
    return link_or_copy(layer->second.get(), std::to_string(node.number), place.folder.get(), place.name);
  }

  const Store& m_store;
  const Beneath& m_root;
  std::map<std::string, base::Fd> m_layers;
  std::vector<std::pair<std::string, mode_t>> m_folders;
};

}  // namespace

Result<void> MergedTree::apply(const LayerContents& layer) {
  ++m_layers;
  const Laying laying{.root = m_root, .nodes = m_nodes, .diff_id = layer.diff_id, .layer = m_layers};
  for (const LayerEntry& entry : layer.entries) TRY(apply_entry(laying, entry));
  return {};
}

void MergedTree::for_each(const std::function<void(const std::string&, const Node&)>& visit) const {
  (void)walk(m_root, "", [&](const std::string& path, const Node& node) -> Result<void> {
    visit(path, node);
    return {};
  });
}

std::uint64_t MergedTree::size() const {
  std::uint64_t total = 0;
  for_each([&](const std::string&, const Node& node) { total += node.size; });
  return total;
}

Result<void> MergedTree::make(const Store& store, const fs::path& root) const {
  const Beneath beneath = TRY(Beneath::open(root));
  Maker maker(store, beneath);
  TRY(walk(m_root, "", [&](const std::string& path, const Node& node) { return maker.make(path, node); }));
  return maker.set_folder_modes();
}

Result<std::string> MergedTree::tree_digest() const {
  std::map<std::string, std::string> lines;  // by path, as the listing is sorted
  const auto list = [&](const std::string& path, const Node& node) -> Result<void> {
    const bool is_link = node.kind == Node::Kind::symlink;
    const auto type = node.kind == Node::Kind::folder ? ListedEntry::Type::folder
                      : is_link                       ? ListedEntry::Type::symlink
                                                      : ListedEntry::Type::file;
    lines.emplace(
        path, TRY(listing_line(
                  {.type = type, .mode = node.mode, .path = path, .content = is_link ? node.target : node.digest})));
    return {};
  };
  TRY(walk(m_root, "", list));
  base::Sha256 hash;
  for (const auto& [path, line] : lines) hash.update(line);
  return base::to_hex(hash.finish());
}

}  // namespace startrail::image
