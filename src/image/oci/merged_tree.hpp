// Layers laid over each other, worked out by their entries alone and only then made as files: what an archive says
// can't lead anywhere but to a place in this tree. Rules: OCI image specification, "Applying Changesets".
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "image/oci/layer_contents.hpp"

namespace startrail::image {

class MergedTree {
 public:
  struct Node {
    enum class Kind { folder, file, symlink } kind = Kind::folder;
    mode_t mode = 0755;
    std::int64_t modified = 0;
    std::size_t layer = 0;  // that set it last
    // Of a file: where its content lies. Hard links are nodes with the same number.
    std::string content_layer;  // diff id
    unsigned number = 0;
    std::uint64_t size = 0;
    std::string digest;
    std::string target;                    // of a symlink
    std::map<std::string, Node> children;  // of a folder
  };

  // The next layer, on top. Links of lower layers in a path's folders are followed as if this tree were "/".
  // Errors: unsafe_path (a path below a file, links in a circle), corrupt (a hard link to nothing), no_space (more
  // files and folders than any image has; few bytes can name very many).
  [[nodiscard]] Result<void> apply(const LayerContents& layer);
  // Every node but the root, folders before what is in them.
  void for_each(const std::function<void(const std::string& path, const Node& node)>& visit) const;
  [[nodiscard]] std::uint64_t size() const;  // of its files, each place counted

  // Makes it below `root`, an empty folder, by hard links to the store's layers.
  [[nodiscard]] Result<void> make(const Store& store, const std::filesystem::path& root) const;
  // As base_tree.cpp computes it of a folder (TreeDigest), without reading anything. Errors: unsafe_path.
  [[nodiscard]] Result<std::string> tree_digest() const;

 private:
  Node m_root;
  std::size_t m_layers = 0;
  std::size_t m_nodes = 0;  // that were ever made
};

}  // namespace startrail::image
