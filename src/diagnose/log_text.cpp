#include "diagnose/log_text.hpp"

#include <algorithm>

namespace startrail::diagnose {
namespace {

constexpr std::size_t k_longest_window = 32U << 10U;  // to each side
constexpr std::string_view k_line_ends = "\n\r";

}  // namespace

std::string_view LogText::around(std::size_t offset, std::size_t before, std::size_t after) const {
  const std::size_t lowest = offset > k_longest_window ? offset - k_longest_window : 0;
  const std::size_t highest = std::min(m_text.size(), offset + k_longest_window);
  std::size_t begin = offset, end = offset;
  for (std::size_t line = 0; line <= before; ++line) {
    if (line > 0 && begin > lowest) --begin;  // the line end itself
    while (begin > lowest && k_line_ends.find(m_text[begin - 1]) == std::string_view::npos) --begin;
  }
  for (std::size_t line = 0; line <= after; ++line) {
    if (line > 0 && end < highest) ++end;
    end = std::min(m_text.find_first_of(k_line_ends, end), highest);
  }
  return m_text.substr(begin, end - begin);
}

std::size_t LogText::line_number(std::size_t offset) {
  if (offset < m_counted_to) m_counted_to = 0, m_lines = 1;
  m_lines += static_cast<std::size_t>(std::ranges::count(m_text.substr(m_counted_to, offset - m_counted_to), '\n'));
  m_counted_to = offset;
  return m_lines;
}

}  // namespace startrail::diagnose
