#include "lock/tags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace startrail::lock {
namespace {

constexpr int k_oldest_python = 5;
constexpr int k_newest_python = 15;
constexpr int k_newest_glibc = 60;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const auto end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

int minor_number(std::string_view minor) {
  int number = 0;
  if (!minor.starts_with("3.")) return 0;
  std::from_chars(minor.data() + 2, minor.data() + minor.size(), number);
  return number;
}

// PEP 600, with the older names that PEP 513, 571 and 599 gave three of them.
std::vector<std::string> platforms(int glibc_minor) {
  std::vector<std::string> names;
  for (int minor = glibc_minor; minor >= 5; --minor) {
    names.push_back(fmt::format("manylinux_2_{}_x86_64", minor));
    if (minor == 17) names.emplace_back("manylinux2014_x86_64");
    if (minor == 12) names.emplace_back("manylinux2010_x86_64");
    if (minor == 5) names.emplace_back("manylinux1_x86_64");
  }
  names.emplace_back("linux_x86_64");
  return names;
}

// "cp37m" until 3.7, "cp38" from then on.
std::string abi_of(int minor) {
  return fmt::format("cp3{}{}", minor, minor <= 7 ? "m" : "");
}

bool digits_start(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

}  // namespace

Result<WheelName> parse_wheel_name(std::string_view filename) {
  constexpr std::string_view k_suffix = ".whl";
  const auto malformed = [&] {
    return fail(ErrorCode::invalid_input, fmt::format("\"{}\" is not a wheel's file name", filename));
  };
  if (!filename.ends_with(k_suffix)) return malformed();
  const auto parts = split(filename.substr(0, filename.size() - k_suffix.size()), '-');
  if (parts.size() != 5 && parts.size() != 6) return malformed();
  if (std::ranges::any_of(parts, &std::string::empty)) return malformed();
  if (parts.size() == 6 && !digits_start(parts[2])) return malformed();
  const auto last = parts.size() - 1;
  return WheelName{.distribution = parts[0],
                   .version = parts[1],
                   .build = parts.size() == 6 ? parts[2] : "",
                   .pythons = split(parts[last - 2], '.'),
                   .abis = split(parts[last - 1], '.'),
                   .platforms = split(parts[last], '.')};
}

void Tags::add(const std::string& tag) {
  m_ranks.try_emplace(tag, static_cast<int>(m_ranks.size()));
}

Tags Tags::for_python(std::string_view minor, int glibc_minor) {
  const int number = minor_number(minor);
  const auto machine = platforms(std::min(glibc_minor, k_newest_glibc));
  Tags tags;
  const auto add_all = [&](const std::string& python, const std::string& abi) {
    for (const auto& platform : machine) tags.add(fmt::format("{}-{}-{}", python, abi, platform));
  };
  const std::string own = fmt::format("cp3{}", number);
  add_all(own, abi_of(number));
  add_all(own, "abi3");
  add_all(own, "none");
  for (int older = number - 1; older >= 2; --older) add_all(fmt::format("cp3{}", older), "abi3");
  std::vector<std::string> generic{fmt::format("py3{}", number), "py3"};
  for (int older = number - 1; older >= 0; --older) generic.push_back(fmt::format("py3{}", older));
  for (const auto& python : generic) add_all(python, "none");
  tags.add(own + "-none-any");
  for (const auto& python : generic) tags.add(python + "-none-any");
  return tags;
}

std::optional<int> Tags::rank(const WheelName& wheel) const {
  std::optional<int> best;
  for (const auto& python : wheel.pythons)
    for (const auto& abi : wheel.abis)
      for (const auto& platform : wheel.platforms) {
        const auto found = m_ranks.find(fmt::format("{}-{}-{}", python, abi, platform));
        if (found != m_ranks.end() && (!best || found->second < *best)) best = found->second;
      }
  return best;
}

std::vector<std::string> pythons_of(const WheelName& wheel) {
  static const auto s_tags = [] {
    std::vector<std::pair<std::string, Tags>> all;
    for (int minor = k_oldest_python; minor <= k_newest_python; ++minor) {
      const std::string name = fmt::format("3.{}", minor);
      all.emplace_back(name, Tags::for_python(name, k_newest_glibc));
    }
    return all;
  }();
  std::vector<std::string> minors;
  for (const auto& [minor, tags] : s_tags)
    if (tags.rank(wheel)) minors.push_back(minor);
  return minors;
}

}  // namespace startrail::lock
