// Columns of text, aligned.
#pragma once

#include <string>
#include <vector>

namespace startrail::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : m_rows{std::move(header)} {}
  void add(std::vector<std::string> row) { m_rows.push_back(std::move(row)); }
  // Two spaces between columns; lines are cut to `width` columns (0: never).
  [[nodiscard]] std::string text(std::size_t width) const;

 private:
  std::vector<std::vector<std::string>> m_rows;
};

// Of the terminal at stdout; 0 when it is none.
[[nodiscard]] std::size_t output_width();

}  // namespace startrail::cli
