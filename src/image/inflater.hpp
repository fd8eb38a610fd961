// Streaming inflate over ISA-L (RFC 1951, raw deflate as in zip archives).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/error.hpp"

namespace startrail::image {

// About 90 KB each. Not thread-safe; may move between threads.
class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;
  // Forgets everything: ready for another stream.
  void reset();

  struct Step {
    std::size_t consumed = 0, produced = 0;
    bool ended = false;  // the stream's last block is complete and all of its output was given
  };
  // Inflates as much as fits. Errors: corrupt.
  [[nodiscard]] Result<Step> step(std::span<const std::byte> input, std::span<std::byte> output);
  // A whole stream at once; `output` must be filled exactly and `input` used up. Errors: corrupt.
  [[nodiscard]] Result<void> whole(std::span<const std::byte> input, std::span<std::byte> output);

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

// CRC-32 as zip archives use it; `so_far` is 0 at the start.
[[nodiscard]] std::uint32_t crc32(std::uint32_t so_far, std::span<const std::byte> bytes);

}  // namespace startrail::image
