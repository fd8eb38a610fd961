#include "run/cause_of_death.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <filesystem>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

namespace startrail::run {
namespace {

constexpr std::size_t k_longest_cause = 200;
constexpr int k_not_executable = 126;  // POSIX shell, "Exit Status for Commands"
constexpr int k_not_found = 127;
constexpr int k_signal_base = 128;

// ECMA-48 control sequences (colours, cursor movements) end with a letter or another byte of 0x40–0x7e.
std::string without_escapes(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      for (i += 2; i < line.size() && (line[i] < 0x40 || line[i] > 0x7e);) ++i;
    } else {
      plain += line[i];
    }
  }
  return plain;
}

// Launchers of several ranks put "[rank0]: " or "[default0]:" before each line.
std::string_view without_rank(std::string_view line) {
  if (!line.starts_with('[')) return line;
  const auto end = line.find("]:");
  if (end == std::string_view::npos || end > 16) return line;
  const std::string_view tag = line.substr(1, end - 1);
  if (!tag.starts_with("rank") && !tag.starts_with("default")) return line;
  line.remove_prefix(end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

// A progress bar's carriage returns end lines too.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.emplace_back(without_rank(without_escapes(text.substr(0, end))));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

std::string last_line(const std::vector<std::string>& lines) {
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](const auto& line) { return !is_blank(line); });
  return last == lines.rend() ? "" : *last;
}

// "name.of.Class: message" or "KeyboardInterrupt".
bool looks_like_exception(const std::string& line) {
  static const std::regex s_exception(
      R"(^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning|Group|Iteration)(:.*)?$)");
  return line.size() < 4096 && std::regex_match(line, s_exception);
}

// torchrun's summary of its children; the children's own tracebacks came before.
bool is_only_a_summary(const std::string& exception) {
  return exception.find("ChildFailedError") != std::string::npos ||
         exception.find("ProcessRaisedException") != std::string::npos;
}

std::optional<std::string> exception_after(const std::vector<std::string>& lines, std::size_t traceback) {
  for (std::size_t i = traceback + 1; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (is_blank(line) || line.front() == ' ' || line.front() == '\t') continue;
    return line.starts_with("Traceback ") ? std::nullopt : std::optional(line);
  }
  return std::nullopt;
}

// The last line of the last traceback, else (a SyntaxError has none) the last line that has an exception's form.
std::optional<std::string> python_exception(const std::vector<std::string>& lines) {
  std::optional<std::string> summary;
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (!lines[i].starts_with("Traceback (most recent call last)")) continue;
    auto exception = exception_after(lines, i);
    if (exception && !is_only_a_summary(*exception)) return exception;
    if (exception && !summary) summary = exception;
  }
  if (summary) return summary;
  const std::size_t recent = lines.size() > 20 ? lines.size() - 20 : 0;
  for (std::size_t i = lines.size(); i-- > recent;)
    if (looks_like_exception(lines[i])) return lines[i];
  return std::nullopt;
}

// PyTorch has worded it in two ways; both give the size asked for, the GPU, its size and what was free.
std::string gpu_memory_cause(const std::string& message) {
  static const std::regex s_asked(R"(Tried to allocate ([\d.]+ [KMGT]?i?B))");
  static const std::regex s_now(
      R"(GPU (\d+) has a total capacity of ([\d.]+ [KMGT]?i?B) of which ([\d.]+ [KMGT]?i?B|[\d.]+ bytes) is free)");
  static const std::regex s_before(
      R"(\(GPU (\d+); ([\d.]+ [KMGT]?i?B) total capacity;.*?([\d.]+ [KMGT]?i?B|[\d.]+ bytes) free)");
  std::string cause = "CUDA out of memory";
  std::smatch found;
  if (std::regex_search(message, found, s_asked)) cause += ": tried to allocate " + found[1].str();
  if (std::regex_search(message, found, s_now) || std::regex_search(message, found, s_before))
    cause += fmt::format("; GPU {} has {}, {} free", found[1].str(), found[2].str(), found[3].str());
  return cause;
}

bool speaks_of_gpu_memory(std::string_view line) {
  return line.find("CUDA out of memory") != std::string_view::npos ||
         line.find("CUDA error: out of memory") != std::string_view::npos;
}

std::optional<std::string> logged_cause(const std::vector<std::string>& lines) {
  auto exception = python_exception(lines);
  if (exception) return speaks_of_gpu_memory(*exception) ? gpu_memory_cause(*exception) : *exception;
  for (std::size_t i = lines.size(); i-- > 0;)
    if (speaks_of_gpu_memory(lines[i])) return gpu_memory_cause(lines[i]);
  return std::nullopt;
}

std::string program_of(const RunSpec& spec) {
  return spec.command.empty() ? "the command" : std::filesystem::path(spec.command.front()).filename().string();
}

std::string signal_cause(int signal, const std::string& program) {
  static constexpr std::array<std::pair<int, std::string_view>, 7> k_meanings{{
      {SIGSEGV, "segmentation fault"},
      {SIGABRT, "it aborted itself"},
      {SIGBUS, "bus error; a full /dev/shm is the usual reason"},
      {SIGFPE, "arithmetic error"},
      {SIGILL, "illegal instruction; built for another CPU?"},
      {SIGKILL, "killed from outside, or by the kernel for want of memory"},
      {SIGTERM, "asked to end from outside"},
  }};
  for (const auto& [known, meaning] : k_meanings)
    if (known == signal) return fmt::format("signal {} in {} ({})", signal, program, meaning);
  return fmt::format("signal {} in {} ({})", signal, program, base::signal_name(signal));
}

// "sh: 1: frobnicate: not found", "bash: line 1: frobnicate: command not found", "sh: 1: ./x: Permission denied".
std::optional<std::string> name_in_shell_message(const std::vector<std::string>& lines, int exit_code) {
  static const std::regex s_missing(R"(^.*?([^:\s][^:]*): (command not found|not found|No such file or directory)$)");
  static const std::regex s_denied(R"(^.*?([^:\s][^:]*): (Permission denied|cannot execute.*)$)");
  std::smatch found;
  const std::string line = last_line(lines);
  if (line.size() > 4096) return std::nullopt;
  if (std::regex_match(line, found, exit_code == k_not_found ? s_missing : s_denied)) return found[1].str();
  return std::nullopt;
}

std::string missing_program_cause(const RunSpec& spec, const std::vector<std::string>& lines, int exit_code) {
  static constexpr std::array<std::string_view, 5> k_shells{"sh", "bash", "dash", "zsh", "env"};
  std::string program = spec.command.empty() ? "" : spec.command.front();
  if (std::ranges::find(k_shells, program_of(spec)) != k_shells.end())
    program = name_in_shell_message(lines, exit_code).value_or(program);
  return fmt::format("{}: {}", exit_code == k_not_found ? "command not found" : "not executable", program);
}

// argparse ("train.py: error: …") and the interpreter itself ("python: can't open file …") leave with 2.
std::optional<std::string> usage_message(const std::vector<std::string>& lines) {
  std::string line = last_line(lines);
  if (line.find(": error: ") != std::string::npos || line.find(": can't open file ") != std::string::npos) return line;
  return std::nullopt;
}

std::string cause_from_log(const sandbox::Ended& ended, const RunSpec& spec, std::string_view log_tail) {
  const auto lines = lines_of(log_tail);
  if (ended.signal != 0) return signal_cause(ended.signal, program_of(spec));
  if (ended.exit_code == k_not_found || ended.exit_code == k_not_executable)
    return missing_program_cause(spec, lines, ended.exit_code);
  if (auto cause = logged_cause(lines)) return *cause;
  if (ended.exit_code == 2)
    if (auto message = usage_message(lines)) return *message;
  const bool by_signal = ended.exit_code > k_signal_base && ended.exit_code <= k_signal_base + 31;
  if (by_signal) return signal_cause(ended.exit_code - k_signal_base, program_of(spec) + "'s child");
  return fmt::format("exit code {}", ended.exit_code);
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : without_escapes(text)) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.size() <= k_longest_cause) return line;
  std::size_t end = k_longest_cause - 3;  // for the ellipsis, three bytes in UTF-8
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) --end;
  return line.substr(0, end) + "…";
}

std::string memory_limit_cause(const RunSpec& spec) {
  if (!spec.limits.memory) return "killed: the memory of the machine ran out";
  return fmt::format("killed: memory limit {} reached", base::to_binary_text(*spec.limits.memory));
}

std::string cause_of_death(const sandbox::Ended& ended, const RunSpec& spec, std::string_view log_tail) {
  if (ended.exit_code == 0 && ended.signal == 0) return "";
  if (ended.out_of_memory) return one_line(memory_limit_cause(spec));
  const std::string cause = cause_from_log(ended, spec, log_tail);
  if (!ended.pids_limit_hit) return one_line(cause);
  const std::string limit = spec.limits.pids ? fmt::format("process limit {} reached", *spec.limits.pids)
                                             : std::string("process limit reached");
  return one_line(limit + ": " + cause);
}

}  // namespace startrail::run
