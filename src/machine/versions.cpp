#include "machine/versions.hpp"

#include <algorithm>
#include <charconv>

namespace startrail::machine {

std::vector<unsigned long> version_numbers(std::string_view text) {
  std::vector<unsigned long> numbers;
  const char* position = text.data();
  const char* const end = text.data() + text.size();
  while (position < end) {
    unsigned long value = 0;
    const auto [next, failure] = std::from_chars(position, end, value);
    if (failure != std::errc{}) break;
    numbers.push_back(value);
    if (next == end || *next != '.') break;
    position = next + 1;
  }
  return numbers;
}

bool older(std::string_view left, std::string_view right) {
  auto a = version_numbers(left);
  auto b = version_numbers(right);
  const std::size_t size = std::max(a.size(), b.size());
  a.resize(size);
  b.resize(size);
  return a < b;
}

}  // namespace startrail::machine
