// One layer from its source into the store, in one pass: fetched, hashed, expanded, hashed again, read as tar, and each
// file hashed and written, while its bytes arrive.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "image/exchange.hpp"
#include "image/oci/layer_contents.hpp"

namespace startrail::image {

// What may still be written, by all layers together.
class WritingRoom {
 public:
  explicit WritingRoom(std::uint64_t bytes) : m_left(static_cast<std::int64_t>(bytes)) {}
  [[nodiscard]] bool take(std::uint64_t bytes) {
    return m_left.fetch_sub(static_cast<std::int64_t>(bytes)) >= static_cast<std::int64_t>(bytes);
  }

 private:
  std::atomic<std::int64_t> m_left;
};

struct LayerOrder {
  Descriptor blob;
  std::string diff_id;  // "sha256:…", what the image's config promises
};

// Finds or makes layers/<diff id>. Several callers at once share the work; a failure leaves nothing.
// Errors: those of the source; hash_mismatch, corrupt, unsafe_path, no_space, unsupported.
[[nodiscard]] Result<void> unpack_layer(const Store& store, ImageSource& source, const LayerOrder& order,
                                        WritingRoom& room, const std::function<void(std::uint64_t)>& on_bytes);

// An entry's name as the layer may have it: relative, without "." and "..", UTF-8 without control characters; "" for
// the root itself.
// Errors: unsafe_path, with the name.
[[nodiscard]] Result<std::string> plain_path(const std::string& path);

}  // namespace startrail::image
