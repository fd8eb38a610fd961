#include "catalog/plain_toml.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/json.hpp"

namespace startrail::catalog {
namespace {

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? "" : text.substr(first);
}

// Takes a quoted text off the front.
std::optional<std::string_view> take_text(std::string_view& rest) {
  if (!rest.starts_with('"')) return std::nullopt;
  const auto end = rest.find('"', 1);
  if (end == std::string_view::npos || rest.substr(0, end).find('\\') != std::string_view::npos) return std::nullopt;
  const std::string_view text = rest.substr(1, end - 1);
  rest = without_blanks(rest.substr(end + 1));
  return text;
}

std::optional<Json> take_list(std::string_view& rest) {
  Json list = Json::array();
  rest = without_blanks(rest.substr(1));
  while (!rest.starts_with(']')) {
    const auto text = take_text(rest);
    if (!text) return std::nullopt;
    list.emplace_back(*text);
    if (rest.starts_with(',')) {
      rest = without_blanks(rest.substr(1));
    } else if (!rest.starts_with(']')) {
      return std::nullopt;
    }
  }
  rest = without_blanks(rest.substr(1));
  return list;
}

std::optional<Json> take_value(std::string_view& rest) {
  if (rest.starts_with('[')) return take_list(rest);
  for (const auto& [word, value] : {std::pair{std::string_view("true"), true}, {"false", false}})
    if (rest.starts_with(word)) {
      rest = without_blanks(rest.substr(word.size()));
      return Json(value);
    }
  const auto text = take_text(rest);
  return text ? std::optional<Json>(*text) : std::nullopt;
}

bool is_end(std::string_view rest) {
  return rest.empty() || rest.front() == '#';
}

// One line into `table`, which a "[[name]]" line replaces by a new one.
std::optional<std::string_view> read_line(std::string_view line, int number, PlainToml& document, Json*& table) {
  line = without_blanks(line);
  if (is_end(line)) return std::nullopt;
  if (line.starts_with("[[")) {
    const auto end = line.find("]]");
    if (end == std::string_view::npos || !is_end(without_blanks(line.substr(end + 2)))) return "a table's name";
    const std::string name(line.substr(2, end - 2));
    Json& tables = document.root[name];
    if (!tables.is_null() && !tables.is_array()) return "a table's name that is no key";
    table = &tables.emplace_back(Json::object());
    document.lines[name].push_back(number);
    return std::nullopt;
  }
  const auto equals = line.find('=');
  if (equals == std::string_view::npos) return "`key = value`";
  const std::string_view key = line.substr(0, line.find_first_of(" \t="));
  std::string_view rest = without_blanks(line.substr(equals + 1));
  auto value = take_value(rest);
  if (!value || !is_end(rest)) return "a text, a list of texts, true or false";
  if (table->contains(std::string(key))) return "a new key";
  (*table)[std::string(key)] = std::move(*value);
  return std::nullopt;
}

}  // namespace

Result<PlainToml> parse_plain_toml(std::string_view text, std::string_view name) {
  PlainToml document{.root = Json::object(), .lines = {}};
  Json* table = &document.root;
  int number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    ++number;
    if (const auto wanted = read_line(text.substr(0, end), number, document, table))
      return fail(ErrorCode::corrupt, fmt::format("{}:{}: expected {}", name, number, *wanted));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return document;
}

}  // namespace startrail::catalog
