// JSON values (nlohmann/json) with errors as values. Headers include json_fwd through this file's
// sibling `json_fwd.hpp`; only sources include this one.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/json_fwd.hpp"

namespace startrail::base {

// `name` is what the error calls the input. Errors: corrupt (no JSON, or more than 100 levels of it).
[[nodiscard]] Result<Json> parse_json(std::string_view text, std::string_view name);
[[nodiscard]] Result<Json> read_json_file(const std::filesystem::path& file);
// Two spaces of indentation and a final newline; invalid UTF-8 is replaced, never thrown at.
[[nodiscard]] std::string to_pretty_text(const Json& json);
[[nodiscard]] std::string to_compact_text(const Json& json);

// Members as they are wanted; a missing member, null, or another type gives the fallback.
[[nodiscard]] std::string string_at(const Json& object, std::string_view key, std::string_view fallback = "");
[[nodiscard]] std::int64_t integer_at(const Json& object, std::string_view key, std::int64_t fallback = 0);
[[nodiscard]] double number_at(const Json& object, std::string_view key, double fallback = 0);
[[nodiscard]] bool boolean_at(const Json& object, std::string_view key, bool fallback = false);
[[nodiscard]] std::vector<std::string> strings_at(const Json& object, std::string_view key);
[[nodiscard]] std::optional<std::string> optional_string_at(const Json& object, std::string_view key);
// The member, or a shared null.
[[nodiscard]] const Json& member(const Json& object, std::string_view key);

// null for nullopt, so that missing values are visible in --json output.
template <class T>
[[nodiscard]] Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace startrail::base
