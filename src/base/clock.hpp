// Wall-clock times as records hold them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::base {

using Time = std::chrono::system_clock::time_point;

[[nodiscard]] inline Time now() {
  return std::chrono::system_clock::now();
}

// RFC 3339 in UTC with milliseconds: "2026-11-30T13:45:12.123Z".
[[nodiscard]] std::string to_text(Time time);
// Reads what `to_text` writes (the fraction may be missing). Errors: invalid_input.
[[nodiscard]] Result<Time> parse_time(std::string_view text);
// "12 s ago", "3 min ago", "2 h ago", "5 d ago".
[[nodiscard]] std::string ago(Time time, Time now);

}  // namespace startrail::base
