#include "image/entry_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "image/zip_directory.hpp"

namespace startrail::image {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

// A dotted name of Python identifiers; letters outside ASCII are allowed as Python allows them.
bool is_dotted_name(std::string_view text) {
  bool first = true;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool letter_like = std::isalpha(byte) != 0 || byte == '_' || byte >= 0x80;
    if (letter == '.' && !first)
      first = true;
    else if (letter_like || (!first && std::isdigit(byte) != 0))
      first = false;
    else
      return false;
  }
  return !first;
}

Result<void> check_command_name(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return base::fail(ErrorCode::unsafe_path, fmt::format("the command name '{}' {}", name, why));
  };
  if (name.find('/') != std::string_view::npos) return refuse("holds a slash");
  if (auto plain = check_relative_path(name); !plain) return base::fail(std::move(plain).error());
  if (!is_valid_utf8(name)) return refuse("is not UTF-8");
  return {};
}

// "package.module:object [extra]": the extras in brackets are deprecated and mean nothing to an installer.
Result<EntryPoint> parse_reference(std::string_view group, std::string_view name, std::string_view value) {
  std::string_view reference = value;
  if (const auto bracket = reference.find('['); bracket != std::string_view::npos)
    reference = reference.substr(0, bracket);
  const auto colon = reference.find(':');
  EntryPoint entry{.group = std::string(group), .name = std::string(name), .module = {}, .object = {}};
  entry.module = trimmed(reference.substr(0, colon));
  if (colon != std::string_view::npos) entry.object = trimmed(reference.substr(colon + 1));
  if (!is_dotted_name(entry.module) || !is_dotted_name(entry.object))
    return base::fail(ErrorCode::corrupt,
                      fmt::format("the command '{}' refers to '{}', which is not module:object", name, value));
  TRY(check_command_name(name));
  return entry;
}

}  // namespace

Result<std::vector<EntryPoint>> parse_entry_points(std::string_view text) {
  std::vector<EntryPoint> entries;
  std::string group;
  while (!text.empty()) {
    const std::size_t stop = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, stop));
    text.remove_prefix(std::min(stop + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      group = trimmed(line.substr(1, line.size() - 2));
      continue;
    }
    if (group != "console_scripts" && group != "gui_scripts") continue;
    const std::size_t sign = line.find('=');
    if (sign == std::string_view::npos)
      return base::fail(ErrorCode::corrupt,
                        fmt::format("entry_points.txt has the line '{}', which is not name = module:object", line));
    entries.push_back(TRY(parse_reference(group, trimmed(line.substr(0, sign)), trimmed(line.substr(sign + 1)))));
  }
  return entries;
}

std::string script_text(const EntryPoint& entry, std::string_view interpreter) {
  const std::string_view root = std::string_view(entry.object).substr(0, entry.object.find('.'));
  return fmt::format(
      "#!{}\n"
      "import sys\n"
      "\n"
      "from {} import {}\n"
      "\n"
      "if __name__ == \"__main__\":\n"
      "    sys.exit({}())\n",
      interpreter, entry.module, root, entry.object);
}

}  // namespace startrail::image
