// Pieces of bytes from one thread to another, a few at most on their way.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "image/oci/tar_reader.hpp"

namespace startrail::image {

class PieceQueue final : public ByteInput {
 public:
  using Piece = std::vector<std::byte>;

  // For the one that fills: false when nobody reads any more.
  [[nodiscard]] bool push(Piece piece);
  // No more come, all is well or not.
  void end(Result<void> outcome);

  // For the one that reads. Errors: that of `end`.
  [[nodiscard]] Result<std::span<const std::byte>> next(std::size_t most) override;
  void leave();

 private:
  static constexpr std::size_t k_most = 8;
  std::mutex m_mutex;
  std::condition_variable m_changed;
  std::deque<Piece> m_pieces;
  std::optional<Result<void>> m_outcome;
  bool m_left = false;
  Piece m_current;
  std::size_t m_used = 0;
};

}  // namespace startrail::image
