#include "image/tree_listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace startrail::image {
namespace {

bool is_control(unsigned char letter) {
  return letter < 0x20 || letter == 0x7f;
}

// How many bytes the character has that begins so; 0: none does (RFC 3629).
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// Neither longer than need be, nor half of a pair, nor behind the last one.
bool is_character(std::uint32_t code, std::size_t length) {
  if (length == 3) return code >= 0x800 && (code < 0xd800 || code > 0xdfff);
  return length != 4 || (code >= 0x10000 && code <= 0x10ffff);
}

}  // namespace

Result<std::string> listing_line(const ListedEntry& entry) {
  using Type = ListedEntry::Type;
  const bool is_link = entry.type == Type::symlink;
  if (has_control_character(entry.path) || (is_link && has_control_character(entry.content)))
    return base::fail(ErrorCode::unsafe_path,
                      fmt::format("'{}' has a control character in its name or target", percent_escaped(entry.path)));
  if (!is_link)
    return fmt::format("{} {:o} {} {}\n", entry.type == Type::folder ? "dir" : "file", entry.mode, entry.path,
                       entry.content);
  // Where a space could belong to the name or to the target, the name's length says which.
  if (entry.path.contains(' ') || entry.content.contains(' '))
    return fmt::format("spaced-link 777 {} {} {}\n", entry.path.size(), entry.path, entry.content);
  return fmt::format("link 777 {} {}\n", entry.path, entry.content);
}

bool has_control_character(const std::string& name) {
  return std::ranges::any_of(name, is_control);
}

bool is_utf8(const std::string& name) {
  for (std::size_t at = 0; at < name.size();) {
    const auto first = static_cast<unsigned char>(name[at]);
    const std::size_t length = length_of(first);
    if (length == 0 || at + length > name.size()) return false;
    std::uint32_t code = length == 1 ? first : first & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
      const auto next = static_cast<unsigned char>(name[at + i]);
      if ((next & 0xc0U) != 0x80U) return false;
      code = code << 6U | (next & 0x3fU);
    }
    if (!is_character(code, length)) return false;
    at += length;
  }
  return true;
}

std::string percent_escaped(const std::string& name) {
  std::string text;
  for (const unsigned char letter : name) {
    if (is_control(letter) || letter >= 0x80 || letter == '%')
      text += fmt::format("%{:02X}", letter);
    else
      text += static_cast<char>(letter);
  }
  return text;
}

}  // namespace startrail::image
