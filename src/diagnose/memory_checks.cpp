// Who holds the memory, and of which kind it is.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "diagnose/check_table.hpp"

namespace startrail::diagnose {
namespace {

// "22.78 GiB", "825.15 MiB", "512 MB": as a number of MiB.
std::optional<double> mebibytes(const std::string& text) {
  char* unit = nullptr;
  const double value = std::strtod(text.c_str(), &unit);
  if (unit == text.c_str()) return std::nullopt;
  while (*unit == ' ') ++unit;
  switch (*unit) {
    case 'K': return value / 1024;
    case 'M': return value;
    case 'G': return value * 1024;
    case 'T': return value * 1024 * 1024;
    default: return std::nullopt;
  }
}

std::optional<double> number_in(std::string_view text, std::string_view expression) {
  const auto pattern = Pattern::compile(expression);
  const auto found = pattern ? pattern->find(text) : std::nullopt;
  return found ? mebibytes(found->captures.at("amount")) : std::nullopt;
}

// What PyTorch prints; the words changed with 2.0.
struct Numbers {
  std::optional<double> requested, free, idle;  // idle: reserved by the allocator, and not used
};

Numbers numbers_of(const Match& match) {
  Numbers numbers{
      .requested = mebibytes(first_word(match, {"requested"})),
      .free = number_in(match.window,
                        R"(of which (?<amount>[\d.]+ ?[KMGT]i?B) is free|; (?<amount>[\d.]+ ?[KMGT]i?B) free)"),
      .idle = number_in(match.window, R"((?<amount>[\d.]+ ?[KMGT]i?B) is reserved by PyTorch but unallocated)")};
  if (!numbers.idle) {
    const auto reserved = number_in(match.window, R"((?<amount>[\d.]+ ?[KMGT]i?B) (reserved in total|cached))");
    const auto used = number_in(match.window, R"((?<amount>[\d.]+ ?[KMGT]i?B) already allocated)");
    if (reserved && used) numbers.idle = *reserved - *used;
  }
  return numbers;
}

std::string in_words(double mebi) {
  return mebi < 1024 ? fmt::format("{:.0f} MiB", mebi) : fmt::format("{:.2f} GiB", mebi / 1024);
}

// The unused reserve, with what is free, would have been enough (about: other allocations came between),
// and it is a good part of what was asked for.
bool fragmented(Match& match) {
  const Numbers numbers = numbers_of(match);
  if (!numbers.requested || !numbers.idle) return false;
  const double free = numbers.free.value_or(0);
  if (free >= *numbers.requested) return false;
  match.words["reserved"] = in_words(*numbers.idle);
  return *numbers.idle + free >= *numbers.requested * 0.95 && *numbers.idle >= *numbers.requested * 0.3;
}

bool oom_numbers(Match& match) {
  const Numbers numbers = numbers_of(match);
  if (!numbers.requested) return true;
  match.words["requested_told"] = fmt::format(": {} more were asked for", in_words(*numbers.requested));
  if (numbers.free && *numbers.free >= *numbers.requested) {
    match.words["requested_told"] +=
        fmt::format(", and though {} were free when the message was made, they were not when it was asked",
                    in_words(*numbers.free));
    match.confidence = 0.8;
  }
  return true;
}

bool who_was_killed(Match& match) {
  const std::string process = first_word(match, {"process"});
  if (!process.empty()) match.words["process_told"] = fmt::format(" ({})", process);
  return true;
}

bool not_too_many_files(Match& match) {
  return !occurs(match.window, "Too many open files");
}

bool no_shm_trouble(Match& match) {
  return !occurs(match.nearby, "Bus error|shared memory \\(shm\\)|killed by signal: Killed|/dev/shm");
}

constexpr std::array k_checks{
    NamedCheck{"fragmented", fragmented},         NamedCheck{"oom-numbers", oom_numbers},
    NamedCheck{"who-was-killed", who_was_killed}, NamedCheck{"not-too-many-files", not_too_many_files},
    NamedCheck{"no-shm-trouble", no_shm_trouble},
};

}  // namespace

std::span<const NamedCheck> memory_checks() {
  return k_checks;
}

}  // namespace startrail::diagnose
