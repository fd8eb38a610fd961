#include "engine/local/own_process.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"

namespace startrail::engine::local {
namespace {

// Numbers of fields in /proc/self/stat, counted from 1 as proc(5) does.
constexpr std::size_t k_threads = 20, k_arguments_start = 48, k_arguments_end = 49, k_environment_start = 50,
                      k_environment_end = 51;
constexpr std::size_t k_first_after_name = 3;

std::vector<std::uint64_t> numbers_in(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    std::uint64_t number = 0;  // stays 0 for the state's letter and for negative ones, which nobody asks for
    std::from_chars(text.data() + start, text.data() + end, number);
    numbers.push_back(number);
    start = end + 1;
  }
  return numbers;
}

// The fields after the process's name, which may hold anything; empty where they can't be read.
std::vector<std::uint64_t> numbers_of_stat() {
  const std::string text = base::read_file("/proc/self/stat").value_or("");
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? std::vector<std::uint64_t>{}
                                       : numbers_in(std::string_view(text).substr(name_end + 2));
}

std::uint64_t field(const std::vector<std::uint64_t>& numbers, std::size_t number) {
  const std::size_t index = number - k_first_after_name;
  return index < numbers.size() ? numbers[index] : 0;
}

void move_environment() {
  const base::Environment variables = base::current_environment();
  ::clearenv();
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace

std::optional<ProcessSize> own_size() {
  const auto numbers = numbers_of_stat();
  const auto pages = numbers_in(base::read_file("/proc/self/statm").value_or(""));  // size, resident, shared, …
  const std::uint64_t threads = field(numbers, k_threads);
  if (threads == 0 || pages.size() < 3) return std::nullopt;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return ProcessSize{.threads = static_cast<int>(threads), .anonymous = Bytes{(pages[1] - pages[2]) * page}};
}

void show_as(std::string_view title) {
  const auto numbers = numbers_of_stat();
  const std::uint64_t start = field(numbers, k_arguments_start), end = field(numbers, k_arguments_end);
  // Arguments and environment lie side by side on the stack. A last argument byte that isn't 0 tells the kernel that
  // the text goes on into the environment (fs/proc/base.c, get_mm_cmdline).
  if (start == 0 || end <= start || field(numbers, k_environment_start) != end) return;
  const std::size_t room = field(numbers, k_environment_end) - start;
  if (room < 2) return;
  move_environment();
  auto* words = reinterpret_cast<char*>(start);
  std::memset(words, 0, room);
  std::memcpy(words, title.data(), std::min(title.size(), room - 1));
}

}  // namespace startrail::engine::local
