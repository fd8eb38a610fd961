#include "cli/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "cli/text_width.hpp"

namespace startrail::cli {

std::string Table::text(std::size_t width) const {
  std::vector<std::size_t> widths(m_rows.front().size());
  for (const auto& row : m_rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  std::string result;
  for (const auto& row : m_rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - columns_of(row[i]) + 2, ' ');
    }
    while (line.ends_with(' ')) line.pop_back();
    result += cut_to_columns(line, width == 0 ? columns_of(line) : width) + "\n";
  }
  return result;
}

std::size_t output_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace startrail::cli
