// RECORD: the list of a wheel's files with their hashes.
// Format: PyPA "Recording installed projects", and "Binary distribution format" for the copy inside wheels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace startrail::image {

struct RecordLine {
  std::string path;       // as written
  std::string algorithm;  // "sha256"; "" when the line has no hash
  std::string hash;       // URL-safe base64 without padding
  std::optional<std::uint64_t> size;
  bool operator==(const RecordLine&) const = default;
};

// CSV with '"' quoting, lines ending in LF or CRLF. Errors: corrupt, with the line's number.
[[nodiscard]] Result<std::vector<RecordLine>> parse_record(std::string_view text);
[[nodiscard]] std::string to_text(const std::vector<RecordLine>& lines);

}  // namespace startrail::image
