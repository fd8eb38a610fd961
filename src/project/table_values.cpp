#include "project/table_values.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace startrail::project {

TableValue TableValue::at(std::string_view key) const {
  TableValue result = *this;
  result.m_value = &base::member(*m_value, key);
  result.m_pointer += "/" + base::pointer_token(key);
  if (const int line = m_file->document.line_of(result.m_pointer); line > 0) result.m_line = line;
  return result;
}

TableValue TableValue::at(std::initializer_list<std::string_view> keys) const {
  TableValue result = *this;
  for (const std::string_view key : keys) result = result.at(key);
  return result;
}

TableValue TableValue::at(std::size_t index) const {
  TableValue result = *this;
  result.m_value = &(*m_value)[index];
  result.m_pointer += fmt::format("/{}", index);
  if (const int line = m_file->document.line_of(result.m_pointer); line > 0) result.m_line = line;
  return result;
}

std::vector<std::string> TableValue::keys() const {
  std::vector<std::string> names;
  if (!is_table()) return names;
  for (const auto& [key, value] : m_value->items()) names.push_back(key);
  std::ranges::stable_sort(names, {}, [&](const std::string& key) { return at(key).m_line; });
  return names;
}

std::vector<Fact<std::string>> TableValue::texts() const {
  if (is_text()) return {{text(), origin()}};
  std::vector<Fact<std::string>> result;
  if (!is_list()) return result;
  for (std::size_t i = 0; i < size(); ++i)
    if (at(i).is_text()) result.push_back({at(i).text(), at(i).origin()});
  return result;
}

}  // namespace startrail::project
