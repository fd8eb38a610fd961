// Layers packed and unpacked. Packed in pieces that stand alone (zstd frames, gzip members: RFC 8878 and RFC 1952 both
// let them follow one another), so that many threads give the same bytes as one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "image/oci/export_image.hpp"

namespace startrail::image {

inline constexpr std::size_t k_piece = 4U << 20U;  // of a tar that is packed at once

[[nodiscard]] std::string_view layer_media_type(Compression compression);
// One piece as a frame or member of its own.
[[nodiscard]] Result<std::vector<std::byte>> pack(Compression compression, std::span<const std::byte> piece);

// Undoes zstd and gzip, told by their first bytes; anything else passes through.
class Expander {
 public:
  Expander();
  ~Expander();
  Expander(const Expander&) = delete;
  Expander& operator=(const Expander&) = delete;
  struct Step {
    std::size_t consumed = 0, produced = 0;
  };
  // As much as fits. Errors: corrupt.
  [[nodiscard]] Result<Step> step(std::span<const std::byte> input, std::span<std::byte> output);
  // The input is at its end: nothing may be half done. Errors: corrupt.
  [[nodiscard]] Result<void> finish() const;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace startrail::image
