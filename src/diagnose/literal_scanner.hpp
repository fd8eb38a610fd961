// Finds many literal texts in one pass (Aho and Corasick 1975).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace startrail::diagnose {

class LiteralScanner {
 public:
  // Number `id` is reported for this text. Call `finish` before `scan`.
  void add(std::string_view text, std::uint32_t id);
  void finish();

  // Calls `found(id, end)` for each occurrence, in the order of their ends; `end` is just behind the last byte.
  template <class Callback>
  void scan(std::string_view text, Callback&& found) const {
    std::uint32_t state = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      state = m_next[state][m_class_of[static_cast<unsigned char>(text[at])]];
      for (std::uint32_t hit = m_first_hit[state]; hit != k_none; hit = m_hits[hit].next) found(m_hits[hit].id, at + 1);
    }
  }

 private:
  static constexpr std::uint32_t k_none = 0xffff'ffff;
  static constexpr std::size_t k_classes = 128;  // bytes that occur in texts, one class each, and one for all others
  struct Hit {
    std::uint32_t id, next;
  };
  std::uint32_t new_state();
  std::uint8_t class_for(unsigned char byte);

  std::array<std::uint8_t, 256> m_class_of{};  // 0: occurs in no text
  std::uint8_t m_classes = 1;
  std::vector<std::array<std::uint32_t, k_classes>> m_next;
  std::vector<std::uint32_t> m_first_hit;  // per state, into m_hits
  std::vector<Hit> m_hits;
};

}  // namespace startrail::diagnose
