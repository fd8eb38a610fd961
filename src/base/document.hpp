// TOML and YAML read into JSON values, with the line each value came from.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/json.hpp"

namespace startrail::base {

struct Document {
  Json root;                         // dates become strings as written in RFC 3339
  std::map<std::string, int> lines;  // JSON pointer ("/project/dependencies/3") → line, counted from 1
  // 0 when unknown.
  [[nodiscard]] int line_of(const std::string& pointer) const;
};

// A key as a part of a JSON pointer: '~' and '/' are escaped (RFC 6901).
[[nodiscard]] std::string pointer_token(std::string_view key);

// Errors: corrupt, naming `name`, the line and what the parser found there.
[[nodiscard]] Result<Document> parse_toml(std::string_view text, std::string_view name);
// Only the first document of a stream; aliases are followed. Plain scalars that look like
// numbers stay text ("3.10" must not become 3.1); null is null.
[[nodiscard]] Result<Document> parse_yaml(std::string_view text, std::string_view name);
[[nodiscard]] Result<Document> read_toml_file(const std::filesystem::path& file);
[[nodiscard]] Result<Document> read_yaml_file(const std::filesystem::path& file);

// A basic TOML string with its quotes and escapes.
[[nodiscard]] std::string toml_quote(std::string_view text);

}  // namespace startrail::base
