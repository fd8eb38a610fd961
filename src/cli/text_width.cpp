#include "cli/text_width.hpp"

namespace startrail::cli {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
};

// A byte that starts no valid sequence is one character of its own.
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  std::size_t bytes = 1;
  if (lead >= 0xF0)
    bytes = 4;
  else if (lead >= 0xE0)
    bytes = 3;
  else if (lead >= 0xC0)
    bytes = 2;
  if (bytes == 1 || bytes > text.size()) return {lead, 1};
  char32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80U) return {lead, 1};
    code = (code << 6U) | (next & 0x3FU);
  }
  return {code, bytes};
}

std::size_t columns_of_character(char32_t code) {
  const bool is_combining =
      (code >= 0x300 && code <= 0x36F) || (code >= 0x200B && code <= 0x200F) || (code >= 0xFE00 && code <= 0xFE0F);
  if (is_combining) return 0;
  const bool is_wide = (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
                       (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
                       (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
                       (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x1F300 && code <= 0x1FAFF) ||
                       (code >= 0x20000 && code <= 0x3FFFD);
  return is_wide ? 2 : 1;
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    columns += columns_of_character(character.code);
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string cut_to_columns(std::string_view text, std::size_t columns) {
  const bool is_cut = columns_of(text) > columns;
  const std::size_t room = is_cut && columns > 0 ? columns - 1 : columns;
  std::string result;
  std::size_t used = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    const std::size_t width = columns_of_character(character.code);
    if (used + width > room) break;
    const bool is_control = character.code < 0x20 || character.code == 0x7F;
    result += is_control ? std::string_view(" ") : text.substr(0, character.bytes);
    used += width;
    text.remove_prefix(character.bytes);
  }
  if (is_cut && columns > 0) result += "…";
  return result;
}

}  // namespace startrail::cli
