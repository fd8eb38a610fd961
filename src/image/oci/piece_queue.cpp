#include "image/oci/piece_queue.hpp"

#include <algorithm>

namespace startrail::image {

bool PieceQueue::push(Piece piece) {
  std::unique_lock lock(m_mutex);
  m_changed.wait(lock, [&] { return m_left || m_pieces.size() < k_most; });
  if (m_left) return false;
  m_pieces.push_back(std::move(piece));
  m_changed.notify_all();
  return true;
}

void PieceQueue::end(Result<void> outcome) {
  const std::scoped_lock lock(m_mutex);
  m_outcome = std::move(outcome);
  m_changed.notify_all();
}

void PieceQueue::leave() {
  const std::scoped_lock lock(m_mutex);
  m_left = true;
  m_changed.notify_all();
}

Result<std::span<const std::byte>> PieceQueue::next(std::size_t most) {
  if (m_used == m_current.size()) {
    std::unique_lock lock(m_mutex);
    m_changed.wait(lock, [&] { return !m_pieces.empty() || m_outcome; });
    if (m_pieces.empty()) {
      if (!*m_outcome) return base::fail(m_outcome->error());
      return std::span<const std::byte>();
    }
    m_current = std::move(m_pieces.front());
    m_pieces.pop_front();
    m_used = 0;
    m_changed.notify_all();
  }
  const std::size_t count = std::min(most, m_current.size() - m_used);
  const std::span<const std::byte> given = std::span<const std::byte>(m_current).subspan(m_used, count);
  m_used += count;
  return given;
}

}  // namespace startrail::image
