#include "lock/locked_fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"

namespace startrail::lock {
namespace {

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace

bool Table::has(std::string_view key) const {
  return !base::member(json, key).is_null();
}

std::unexpected<Error> Table::corrupt(std::string_view key, std::string_view what) const {
  const std::string field = pointer + "/" + std::string(key);
  const int exact = document.line_of(field);
  const int line = exact != 0 ? exact : document.line_of(pointer);
  const std::string place = line != 0 ? fmt::format("{}:{}", name, line) : name;
  return fail(error(ErrorCode::corrupt, fmt::format("{}: `{}` {}", place, key, what))
                  .with_hint("`trail lock --upgrade` writes the lock anew"));
}

Result<std::string> Table::text(std::string_view key) const {
  const Json& value = base::member(json, key);
  if (value.is_null()) return std::string();
  if (!value.is_string()) return corrupt(key, "should be a string");
  auto content = value.get<std::string>();
  if (has_control_characters(content)) return corrupt(key, "holds control characters");
  return content;
}

Result<std::string> Table::required_text(std::string_view key) const {
  std::string content = TRY(text(key));
  if (content.empty()) return corrupt(key, "is missing");
  return content;
}

Result<std::vector<std::string>> Table::texts(std::string_view key) const {
  const Json& value = base::member(json, key);
  std::vector<std::string> list;
  if (value.is_null()) return list;
  if (!value.is_array()) return corrupt(key, "should be an array of strings");
  for (const auto& item : value) {
    if (!item.is_string() || has_control_characters(item.get_ref<const std::string&>()))
      return corrupt(key, "should be an array of strings");
    list.push_back(item.get<std::string>());
  }
  return list;
}

Result<std::uint64_t> Table::count(std::string_view key) const {
  const Json& value = base::member(json, key);
  if (value.is_null()) return 0;
  const bool whole = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  if (!whole) return corrupt(key, "should be a whole number");
  return value.get<std::uint64_t>();
}

Result<Table> Table::table(std::string_view key) const {
  static const Json s_empty = Json::object();
  const Json& value = base::member(json, key);
  const std::string inner = pointer + "/" + std::string(key);
  if (value.is_null()) return Table{.document = document, .json = s_empty, .pointer = inner, .name = name};
  if (!value.is_object()) return corrupt(key, "should be a table");
  return Table{.document = document, .json = value, .pointer = inner, .name = name};
}

Result<std::vector<Table>> Table::tables(std::string_view key) const {
  const Json& value = base::member(json, key);
  std::vector<Table> list;
  if (value.is_null()) return list;
  if (!value.is_array()) return corrupt(key, "should be an array of tables");
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!value[i].is_object()) return corrupt(key, "should be an array of tables");
    list.push_back(Table{
        .document = document, .json = value[i], .pointer = fmt::format("{}/{}/{}", pointer, key, i), .name = name});
  }
  return list;
}

}  // namespace startrail::lock
