#include "machine/text_fields.hpp"

#include <charconv>

#include "base/files.hpp"

namespace startrail::machine {
namespace {

constexpr Bytes k_largest_text{4ULL << 20U};
constexpr std::string_view k_blanks = " \t\r\n";

}  // namespace

std::string text_of(const fs::path& file) {
  return base::read_file(file, k_largest_text).value_or("");
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(k_blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_blanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::vector<std::string_view> lines(std::string_view text) {
  auto parts = split(text, '\n');
  if (!parts.empty() && parts.back().empty()) parts.pop_back();
  return parts;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  for (std::size_t start = text.find_first_not_of(k_blanks); start != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(k_blanks, start), text.size());
    result.push_back(text.substr(start, end - start));
    start = text.find_first_not_of(k_blanks, end);
  }
  return result;
}

std::optional<std::uint64_t> number(std::string_view text) {
  text = trimmed(text);
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string_view> field(std::string_view text, std::string_view key) {
  for (const auto line : lines(text))
    if (line.starts_with(key)) return trimmed(line.substr(key.size()));
  return std::nullopt;
}

}  // namespace startrail::machine
