// A log as lines, without a copy of it.
#pragma once

#include <cstddef>
#include <string_view>

namespace startrail::diagnose {

// Windows of a text: lines end with \n or \r. A line longer than `k_longest_window` is cut around the place.
class LogText {
 public:
  explicit LogText(std::string_view text) : m_text(text) {}

  // The line with the byte at `offset`, `before` lines before it and `after` behind it.
  [[nodiscard]] std::string_view around(std::size_t offset, std::size_t before, std::size_t after) const;
  // Counted from 1, by \n. Calls must come with rising offsets to be fast.
  [[nodiscard]] std::size_t line_number(std::size_t offset);
  [[nodiscard]] std::string_view all() const { return m_text; }

 private:
  std::string_view m_text;
  std::size_t m_counted_to = 0, m_lines = 1;
};

}  // namespace startrail::diagnose
