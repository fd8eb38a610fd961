// Fields of a lock's TOML tables, each checked for type and content; errors name line and field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.hpp"
#include "base/error.hpp"

namespace startrail::lock {

// One table of the document, with what it takes to say where a fault is.
struct Table {
  const base::Document& document;
  const Json& json;
  std::string pointer;  // JSON pointer of the table
  std::string name;     // of the file

  [[nodiscard]] bool has(std::string_view key) const;
  // "" when absent. Errors: corrupt when it isn't a string or holds control characters.
  [[nodiscard]] Result<std::string> text(std::string_view key) const;
  [[nodiscard]] Result<std::string> required_text(std::string_view key) const;
  [[nodiscard]] Result<std::vector<std::string>> texts(std::string_view key) const;
  // 0 when absent; never negative.
  [[nodiscard]] Result<std::uint64_t> count(std::string_view key) const;
  // An empty table when absent.
  [[nodiscard]] Result<Table> table(std::string_view key) const;
  // No tables when absent. `owner` says what they belong to.
  [[nodiscard]] Result<std::vector<Table>> tables(std::string_view key) const;

  [[nodiscard]] std::unexpected<Error> corrupt(std::string_view key, std::string_view what) const;
};

}  // namespace startrail::lock
