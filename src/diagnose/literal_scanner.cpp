#include "diagnose/literal_scanner.hpp"

#include <cassert>
#include <queue>

namespace startrail::diagnose {

std::uint32_t LiteralScanner::new_state() {
  m_next.emplace_back().fill(k_none);
  m_first_hit.push_back(k_none);
  return static_cast<std::uint32_t>(m_next.size() - 1);
}

std::uint8_t LiteralScanner::class_for(unsigned char byte) {
  if (m_class_of[byte] == 0) {
    assert(m_classes < k_classes);
    m_class_of[byte] = m_classes++;
  }
  return m_class_of[byte];
}

void LiteralScanner::add(std::string_view text, std::uint32_t id) {
  if (m_next.empty()) new_state();
  std::uint32_t state = 0;
  for (const char byte : text) {
    const std::uint8_t kind = class_for(static_cast<unsigned char>(byte));
    if (m_next[state][kind] == k_none) {
      const std::uint32_t added = new_state();
      m_next[state][kind] = added;
    }
    state = m_next[state][kind];
  }
  m_hits.push_back({id, m_first_hit[state]});
  m_first_hit[state] = static_cast<std::uint32_t>(m_hits.size() - 1);
}

// Breadth first: a state's fallback is shallower, so it is complete when the state is reached.
void LiteralScanner::finish() {
  if (m_next.empty()) new_state();
  std::vector<std::uint32_t> fallback(m_next.size(), 0);
  std::queue<std::uint32_t> waiting;
  for (auto& next : m_next[0]) {
    if (next == k_none)
      next = 0;
    else
      waiting.push(next);
  }
  while (!waiting.empty()) {
    const std::uint32_t state = waiting.front();
    waiting.pop();
    const std::uint32_t shorter = fallback[state];
    // Its own hits first, then those of its longest suffix.
    if (m_first_hit[state] == k_none) {
      m_first_hit[state] = m_first_hit[shorter];
    } else if (m_first_hit[shorter] != k_none) {
      std::uint32_t last = m_first_hit[state];
      while (m_hits[last].next != k_none) last = m_hits[last].next;
      m_hits[last].next = m_first_hit[shorter];
    }
    for (std::size_t kind = 0; kind < k_classes; ++kind) {
      std::uint32_t& next = m_next[state][kind];
      if (next == k_none) {
        next = m_next[shorter][kind];
      } else {
        fallback[next] = m_next[shorter][kind];
        waiting.push(next);
      }
    }
  }
}

}  // namespace startrail::diagnose
