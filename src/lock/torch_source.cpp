#include "lock/torch_source.hpp"

#include <cctype>
#include <string_view>

#include "base/document.hpp"
#include "base/files.hpp"
#include "project/requirements.hpp"
#include "project/text_scan.hpp"

namespace startrail::lock {
namespace {

constexpr Bytes k_largest_file{1U << 20U};

std::string text_of(const fs::path& file) {
  return base::read_file(file, k_largest_file).value_or("");
}

// The line without what leads up to its first word.
std::string_view next_line(std::string_view& rest) {
  const auto end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  const auto first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : line.substr(first);
}

bool is_import_of_torch(std::string_view line) {
  for (const std::string_view start : {"import torch", "from torch"}) {
    if (!line.starts_with(start)) continue;
    const std::string_view rest = line.substr(start.size());
    if (rest.empty() || rest.find_first_of(" \t.,;#\r") == 0) return true;
  }
  return false;
}

// `name = "x"`, `name="x",` or `name = x` (setup.cfg): the value of the first line that says so.
std::string name_in(std::string_view text) {
  for (auto at = text.find("name"); at != std::string_view::npos; at = text.find("name", at + 1)) {
    const bool is_word = at == 0 || std::string_view(" \t\n(,").find(text[at - 1]) != std::string_view::npos;
    auto value = text.find_first_not_of(" \t", at + 4);
    if (!is_word || value == std::string_view::npos || text[value] != '=') continue;
    value = text.find_first_not_of(" \t", value + 1);
    if (value == std::string_view::npos) continue;
    const char quote = text[value];
    const bool quoted = quote == '"' || quote == '\'';
    const auto start = quoted ? value + 1 : value;
    const auto end = text.find_first_of(quoted ? std::string_view(&quote, 1) : std::string_view("\n"), start);
    return std::string(project::trimmed(text.substr(start, std::min(end, text.size()) - start)));
  }
  return "";
}

bool is_name(std::string_view text) {
  if (text.empty() || std::isalnum(static_cast<unsigned char>(text.front())) == 0) return false;
  for (const unsigned char c : text)
    if (std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.') return false;
  return true;
}

}  // namespace

bool imports_torch(const fs::path& folder) {
  const std::string text = text_of(folder / "setup.py");
  for (std::string_view rest = text; !rest.empty();)
    if (is_import_of_torch(next_line(rest))) return true;
  return false;
}

std::string package_name(const fs::path& folder) {
  const auto document = base::parse_toml(text_of(folder / "pyproject.toml"), "pyproject.toml");
  std::string name = document ? base::string_at(base::member(document->root, "project"), "name") : "";
  for (const char* file : {"setup.cfg", "setup.py"})
    if (!is_name(name)) name = name_in(text_of(folder / file));
  return is_name(name) ? project::normalized_name(name) : "";
}

}  // namespace startrail::lock
