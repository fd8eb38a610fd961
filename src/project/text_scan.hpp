// Characters and pieces of text, as the readers of this module look at them. ASCII only, whatever the locale.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace startrail::project {

[[nodiscard]] constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
[[nodiscard]] constexpr bool is_alphanumeric(char c) {
  return is_digit(c) || is_letter(c);
}
[[nodiscard]] constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}
[[nodiscard]] constexpr bool is_one_of(char c, std::string_view set) {
  return set.find(c) != std::string_view::npos;
}

[[nodiscard]] std::string to_lower(std::string_view text);
// Without blanks and line ends at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);
// Views into `text`, which must therefore outlive them.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
std::vector<std::string_view> split(std::string&& text, char separator) = delete;
[[nodiscard]] bool contains_ignoring_case(std::string_view text, std::string_view part);

// "a%20b" → "a b"; a '%' that begins no escape stays.
[[nodiscard]] std::string percent_decoded(std::string_view text);

// As a message may show it: one line, without what a terminal would obey, and not longer than a line or two.
[[nodiscard]] std::string quotable(std::string_view text);

// The one of `known` that `word` was probably meant to be; "" when none is near.
[[nodiscard]] std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace startrail::project
