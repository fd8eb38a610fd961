// What a layer from elsewhere holds: its entries in the archive's order, and where the store keeps their content.
//
//   layers/<diff id>.v1/contents.json    entries
//   layers/<diff id>.v1/files/<number>   content, mode and time of the file entry with that number
//
// Names are only in contents.json. So nothing that an archive says becomes a path on this machine before all of it is
// known, and a later entry may replace an earlier one in any way that tar allows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "image/store.hpp"

namespace startrail::image {

struct LayerEntry {
  enum class Kind {
    file,
    folder,
    symlink,
    hard_link,
    whiteout,  // `path` of the layers below is gone
    opaque,    // what the layers below have in the folder `path` is gone
  };
  Kind kind = Kind::file;
  std::string path;  // relative; no "." or ".." in it
  mode_t mode = 0;
  std::int64_t modified = 0;
  std::uint64_t size = 0;  // of a file
  std::string digest;      // of a file: SHA-256 in hex
  std::string target;      // of a link
  unsigned number = 0;     // of a file
};

struct LayerContents {
  std::string diff_id;  // "sha256:…" of the uncompressed archive
  std::uint64_t size = 0;
  std::vector<LayerEntry> entries;
  std::vector<std::string> skipped;  // devices and pipes: no run sees them
};

[[nodiscard]] std::string contents_text(const LayerContents& contents);
// Errors: not_found, corrupt.
[[nodiscard]] Result<LayerContents> read_contents(const Store& store, const std::string& diff_id);
[[nodiscard]] bool has_layer(const Store& store, const std::string& diff_id);
[[nodiscard]] std::filesystem::path layer_file(const Store& store, const std::string& diff_id, unsigned number);

}  // namespace startrail::image
