#include "cli/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/files.hpp"

namespace startrail::cli {
namespace {

std::string_view code_of(Style style) {
  switch (style) {
    case Style::bold: return "\x1b[1m";
    case Style::dim: return "\x1b[2m";
    case Style::red: return "\x1b[1;31m";
    case Style::yellow: return "\x1b[1;33m";
    case Style::cyan: return "\x1b[36m";
    case Style::green: return "\x1b[32m";
  }
  return "";
}

}  // namespace

bool is_terminal(int descriptor) {
  return ::isatty(descriptor) == 1;
}

bool wants_colour(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* terminal = std::getenv("TERM");
  return is_terminal(descriptor) && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

std::string styled(std::string_view text, Style style, bool colour) {
  if (!colour) return std::string(text);
  return fmt::format("{}{}\x1b[0m", code_of(style), text);
}

void print(std::string_view text) {
  if (auto written = base::write_all(STDOUT_FILENO, text, "standard output"); !written) {
    say(fmt::format("error: {}", written.error().message));
    // What was asked for could not be given: a script must not take that for an answer.
    std::exit(base::exit_code(written.error().code));
  }
}

void print_json(const Json& json) {
  print(base::to_pretty_text(json));
}

void say(std::string_view text) {
  (void)base::write_all(STDERR_FILENO, fmt::format("{}\n", text), "standard error");
}

void say_warning(std::string_view text) {
  say(fmt::format("{} {}", styled("warning:", Style::yellow, wants_colour(STDERR_FILENO)), text));
}

std::string styled_error(const Error& error, bool colour) {
  std::string text = fmt::format("{} {}", styled("error:", Style::red, colour), error.message);
  for (const auto& line : error.context) text += "\n  " + line;
  for (const auto& hint : error.hints) text += fmt::format("\n{} {}", styled("hint:", Style::cyan, colour), hint);
  return text;
}

Json error_json(const Error& error) {
  return Json{{"error",
               {{"code", base::name(error.code)},
                {"reason", error.message},
                {"context", error.context},
                {"hints", error.hints}}}};
}

int report(const Error& error, Format format) {
  if (format == Format::json) print_json(error_json(error));
  say(styled_error(error, wants_colour(STDERR_FILENO)));
  const char* debug = std::getenv("STARTRAIL_DEBUG");
  if (debug != nullptr && !error.detail.empty()) say(error.detail);
  return base::exit_code(error.code);
}

Format format_asked(std::span<const std::string> words) {
  const auto end = std::ranges::find(words, "--");
  return std::find(words.begin(), end, "--json") == end ? Format::text : Format::json;
}

}  // namespace startrail::cli
