#include "base/clock.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>

namespace startrail::base {

std::string to_text(Time time) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = millis / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, millis % 1000);
}

Result<Time> parse_time(std::string_view text) {
  std::tm parts{};
  int millis = 0;
  const std::string owned(text);
  const int fields = std::sscanf(owned.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3d", &parts.tm_year, &parts.tm_mon,
                                 &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &millis);
  if (fields < 6) return fail(ErrorCode::invalid_input, fmt::format("`{}` is not a time", text));
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return std::chrono::system_clock::from_time_t(timegm(&parts)) + std::chrono::milliseconds(millis);
}

std::string ago(Time time, Time now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - time).count();
  if (seconds < 60) return fmt::format("{} s ago", seconds < 0 ? 0 : seconds);
  if (seconds < 3600) return fmt::format("{} min ago", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h ago", seconds / 3600);
  return fmt::format("{} d ago", seconds / 86400);
}

}  // namespace startrail::base
