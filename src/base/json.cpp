#include "base/json.hpp"

#include <fmt/format.h>

#include "base/files.hpp"

namespace startrail::base {
namespace {

// Whoever writes a value out again does so level by level on the stack. No document that is meant well comes near.
constexpr int k_deepest = 100;

bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (in_string) {
      if (letter == '\\') ++i;
      in_string = letter != '"';
      continue;
    }
    if (letter == '"') in_string = true;
    if ((letter == '[' || letter == '{') && ++depth > k_deepest) return true;
    if (letter == ']' || letter == '}') --depth;
  }
  return false;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view name) {
  if (is_too_deep(text)) return fail(ErrorCode::corrupt, fmt::format("{} is nested too deeply", name));
  try {
    return Json::parse(text);
  } catch (const Json::exception& failure) {
    Error reason = error(ErrorCode::corrupt, fmt::format("{} is not valid JSON", name));
    reason.detail = failure.what();
    return fail(std::move(reason));
  }
}

Result<Json> read_json_file(const fs::path& file) {
  const std::string text = TRY(read_file(file));
  return parse_json(text, file.string());
}

std::string to_pretty_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_compact_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json& member(const Json& object, std::string_view key) {
  static const Json s_null;
  if (!object.is_object()) return s_null;
  const auto found = object.find(std::string(key));
  return found == object.end() ? s_null : *found;
}

std::string string_at(const Json& object, std::string_view key, std::string_view fallback) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string(fallback);
}

std::int64_t integer_at(const Json& object, std::string_view key, std::int64_t fallback) {
  const Json& value = member(object, key);
  return value.is_number() ? value.get<std::int64_t>() : fallback;
}

double number_at(const Json& object, std::string_view key, double fallback) {
  const Json& value = member(object, key);
  return value.is_number() ? value.get<double>() : fallback;
}

bool boolean_at(const Json& object, std::string_view key, bool fallback) {
  const Json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : fallback;
}

std::vector<std::string> strings_at(const Json& object, std::string_view key) {
  std::vector<std::string> result;
  for (const Json& item : member(object, key))
    if (item.is_string()) result.push_back(item.get<std::string>());
  return result;
}

std::optional<std::string> optional_string_at(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

}  // namespace startrail::base
