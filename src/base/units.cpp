#include "base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace startrail::base {
namespace {

std::string scaled(double value, double step, const std::array<const char*, 6>& names) {
  std::size_t unit = 0;
  while (value >= step && unit + 1 < names.size()) {
    value /= step;
    ++unit;
  }
  if (unit == 0 || value >= 99.95) return fmt::format("{:.0f} {}", value, names[unit]);
  if (value == std::floor(value)) return fmt::format("{:.0f} {}", value, names[unit]);
  return fmt::format("{:.1f} {}", value, names[unit]);
}

struct Number {
  double value;
  std::string_view suffix;
};

Result<Number> split_number(std::string_view text, std::string_view kind) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || value < 0 || !std::isfinite(value))
    return fail(ErrorCode::invalid_input, fmt::format("`{}` is not a {}", text, kind));
  std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  return Number{value, suffix};
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

std::string to_text(Bytes bytes) {
  return scaled(static_cast<double>(bytes.count), 1000, {"B", "kB", "MB", "GB", "TB", "PB"});
}

std::string to_binary_text(Bytes bytes) {
  return scaled(static_cast<double>(bytes.count), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

Result<Bytes> parse_bytes(std::string_view text) {
  const auto number = TRY(split_number(text, "size"));
  const std::string suffix = lower(number.suffix);
  constexpr std::string_view powers = "kmgtp";
  double factor = 1;
  if (!suffix.empty() && suffix != "b") {
    const auto power = powers.find(suffix.front());
    const std::string_view rest = std::string_view(suffix).substr(1);
    if (power == std::string_view::npos || (rest != "" && rest != "i" && rest != "ib" && rest != "b"))
      return fail(error(ErrorCode::invalid_input, fmt::format("`{}` is not a size", text))
                      .with_hint("write it like 16GiB, 512MiB or 2GB"));
    factor = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power) + 1);
  }
  const double bytes = number.value * factor;
  if (bytes > 9e18) return fail(ErrorCode::invalid_input, fmt::format("`{}` is too large for a size", text));
  return Bytes{static_cast<std::uint64_t>(bytes)};
}

std::string to_text(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Result<std::chrono::seconds> parse_duration(std::string_view text) {
  const auto number = TRY(split_number(text, "duration"));
  double factor = 0;
  if (number.suffix.empty() || number.suffix == "s") factor = 1;
  if (number.suffix == "m" || number.suffix == "min") factor = 60;
  if (number.suffix == "h") factor = 3600;
  if (number.suffix == "d") factor = 86400;
  if (factor == 0 || number.value * factor > 1e10)
    return fail(error(ErrorCode::invalid_input, fmt::format("`{}` is not a duration", text))
                    .with_hint("write it like 30s, 5m or 2h"));
  return std::chrono::seconds(static_cast<long long>(number.value * factor));
}

}  // namespace startrail::base
