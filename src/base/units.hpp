// Bytes and durations as people write and read them.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::base {

struct Bytes {
  std::uint64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
  Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
};
[[nodiscard]] inline Bytes operator+(Bytes a, Bytes b) {
  return {a.count + b.count};
}

// "2.9 GB" (decimal units, three significant figures), as download tools print sizes.
[[nodiscard]] std::string to_text(Bytes bytes);
// "512 MiB": binary units, for memory limits.
[[nodiscard]] std::string to_binary_text(Bytes bytes);
// "16GiB", "512M" (binary, as docker reads it), "2GB" (decimal), "1048576". Errors: invalid_input.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);

// "850 ms", "12.4 s", "3 min 20 s", "2 h 5 min".
[[nodiscard]] std::string to_text(std::chrono::nanoseconds duration);
// "30", "30s", "5m", "2h". Errors: invalid_input.
[[nodiscard]] Result<std::chrono::seconds> parse_duration(std::string_view text);

}  // namespace startrail::base

namespace startrail {
using base::Bytes;
}
