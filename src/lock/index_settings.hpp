// Where uv and pip are told which package index to use, read from given files and variables only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "lock/lock.hpp"

namespace startrail::lock {

// What one tool's files and variables say; "" and empty lists where they say nothing.
struct ToolSettings {
  std::string default_index;
  std::vector<std::string> extra_indexes;
  std::vector<std::string> find_links;
  std::string certificates;  // pip's `cert`
  bool operator==(const ToolSettings&) const = default;
};

// uv.toml's [[index]], index-url, extra-index-url and find-links. Errors: corrupt.
[[nodiscard]] Result<ToolSettings> parse_uv_settings(std::string_view text, const std::string& name);
// pip.conf's [global] and [install]; later sections win, as pip has it. Lines that aren't INI are skipped.
[[nodiscard]] ToolSettings parse_pip_settings(std::string_view text);

// The same with `root` before /etc, for tests.
[[nodiscard]] IndexConfiguration index_configuration(const base::Environment& environment,
                                                     const std::filesystem::path& root);

// An address as the index page gives it, made absolute (RFC 3986, section 5.2, as far as indexes need it).
[[nodiscard]] std::string absolute_url(std::string_view base, std::string_view reference);

// The files of a PEP 691 JSON or PEP 503 HTML page that came from `page_url`. Errors: corrupt.
[[nodiscard]] Result<std::vector<IndexFile>> parse_index_json(std::string_view text, const std::string& page_url);
[[nodiscard]] std::vector<IndexFile> parse_index_html(std::string_view text, const std::string& page_url);

}  // namespace startrail::lock
