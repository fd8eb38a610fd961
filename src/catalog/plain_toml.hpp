// The part of TOML that catalog/*.toml keep to. A full parser takes 11 ms for them, and every start of a run
// looks into the catalog; this takes a fraction of one. A test compares both readings.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"

namespace startrail::catalog {

struct PlainToml {
  Json root;
  std::map<std::string, std::vector<int>> lines;  // of each "[[table]]", in order
};

// Lines of `key = "text"`, `key = true|false`, `key = ["text", …]`, `[[table]]`, and comments. Texts have no
// escapes. Errors: corrupt, naming `name` and the line.
[[nodiscard]] Result<PlainToml> parse_plain_toml(std::string_view text, std::string_view name);

}  // namespace startrail::catalog
