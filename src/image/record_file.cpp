#include "image/record_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace startrail::image {
namespace {

// Cuts one CSV field off `rest`; leaves the separator in place.
Result<std::string> take_field(std::string_view& rest) {
  if (!rest.starts_with('"')) {
    const std::size_t stop = std::min(rest.find_first_of(",\r\n"), rest.size());
    std::string field(rest.substr(0, stop));
    rest.remove_prefix(stop);
    return field;
  }
  rest.remove_prefix(1);
  std::string field;
  for (;;) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) return base::fail(ErrorCode::corrupt, "an open quote");
    field += rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) return field;
    field += '"';
    rest.remove_prefix(1);
  }
}

// Base64 in both its alphabets, and names like "sha3_256": nothing that would need quoting.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '-' || letter == '_' || letter == '+' || letter == '/';
  });
}

Result<RecordLine> make_line(std::vector<std::string> fields) {
  if (fields.size() > 3) return base::fail(ErrorCode::corrupt, "more than three fields");
  fields.resize(3);
  RecordLine line{.path = std::move(fields[0]), .algorithm = {}, .hash = {}, .size = {}};
  if (line.path.empty()) return base::fail(ErrorCode::corrupt, "no path");
  if (!fields[1].empty()) {
    const std::size_t sign = fields[1].find('=');
    if (sign == std::string::npos || sign == 0) return base::fail(ErrorCode::corrupt, "a hash without its algorithm");
    line.algorithm = fields[1].substr(0, sign);
    line.hash = fields[1].substr(sign + 1);
    while (line.hash.ends_with('=')) line.hash.pop_back();  // padding, which the format forbids but some tools write
    if (line.hash.empty()) return base::fail(ErrorCode::corrupt, "an algorithm without its hash");
    if (!is_plain(line.algorithm) || !is_plain(line.hash))
      return base::fail(ErrorCode::corrupt, "a hash with characters that no hash has");
  }
  if (!fields[2].empty()) {
    std::uint64_t size = 0;
    const char* end = fields[2].data() + fields[2].size();
    const auto [stop, code] = std::from_chars(fields[2].data(), end, size);
    if (code != std::errc() || stop != end) return base::fail(ErrorCode::corrupt, "a size that is not a number");
    line.size = size;
  }
  return line;
}

std::string quoted(std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(field);
  std::string text = "\"";
  for (const char letter : field) {
    if (letter == '"') text += '"';
    text += letter;
  }
  return text + '"';
}

}  // namespace

Result<std::vector<RecordLine>> parse_record(std::string_view text) {
  std::vector<RecordLine> lines;
  const auto where = [&] { return fmt::format("in line {} of RECORD", lines.size() + 1); };
  while (!text.empty()) {
    if (text.front() == '\n' || text.front() == '\r') {  // an empty line, or the end of the one before
      text.remove_prefix(1);
      continue;
    }
    std::vector<std::string> fields;
    for (;;) {
      fields.push_back(TRY_CONTEXT(take_field(text), where()));
      if (!text.starts_with(',')) break;
      text.remove_prefix(1);
    }
    if (!text.empty() && text.front() != '\n' && text.front() != '\r')
      return base::fail(base::error(ErrorCode::corrupt, "text behind a closing quote").with_context(where()));
    lines.push_back(TRY_CONTEXT(make_line(std::move(fields)), where()));
  }
  return lines;
}

std::string to_text(const std::vector<RecordLine>& lines) {
  std::string text;
  for (const RecordLine& line : lines) {
    text += quoted(line.path);
    text += ',';
    if (!line.hash.empty()) text += line.algorithm + '=' + line.hash;
    text += ',';
    if (line.size) text += fmt::to_string(*line.size);
    text += '\n';
  }
  return text;
}

}  // namespace startrail::image
