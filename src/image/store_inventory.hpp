// What a store has, tree by tree, and what each image needs of it: one walk that asks for the status of files only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "image/store.hpp"

namespace startrail::image {

enum class TreeKind { wheel, layer, base, bytecode, image, unfinished, other };

// A file, folder or link on the disk, however many names it has.
struct StoredFile {
  std::uint64_t size = 0;        // bytes of disk
  std::uint32_t names = 1;       // all that it has
  std::uint32_t names_here = 0;  // those in the store; fewer when somebody else has a hard link
};

// What comes and goes as one: a wheel, an image, a part on its way.
struct StoredTree {
  TreeKind kind = TreeKind::other;
  std::filesystem::path path;
  std::vector<std::uint32_t> files = {};    // indices into `files`, one for each name
  std::vector<std::size_t> needed_by = {};  // indices into `images`, increasing
};

struct StoredImage {
  std::string id;                       // without "sha256:"
  std::size_t tree = 0;                 // index into `trees`
  std::vector<std::size_t> needs = {};  // indices into `trees`, increasing: its own, and those that it was made from
  base::Time last_used = {};
};

struct Inventory {
  std::vector<StoredFile> files;
  std::vector<StoredTree> trees;
  std::vector<StoredImage> images;
};
// What is made or removed meanwhile may be in it or not; a caller that needs it exact holds the store.
[[nodiscard]] Inventory take_inventory(const Store& store);

}  // namespace startrail::image
