// Where a command's results go: data to stdout, everything else to stderr; as text or as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/json.hpp"

namespace startrail::cli {

enum class Format { text, json };

// Terminals get colour, unless NO_COLOR is set (no-color.org) or TERM is dumb.
[[nodiscard]] bool is_terminal(int descriptor);
[[nodiscard]] bool wants_colour(int descriptor);

enum class Style { bold, dim, red, yellow, cyan, green };
[[nodiscard]] std::string styled(std::string_view text, Style style, bool colour);

// To stdout. A reader that has gone away ends the process quietly, as it does for other programs (SIGPIPE).
void print(std::string_view text);
void print_json(const Json& json);
// A line to stderr.
void say(std::string_view text);
void say_warning(std::string_view text);

// Prints the error (text on stderr, and with Format::json its JSON on stdout) and returns its exit code.
[[nodiscard]] int report(const Error& error, Format format);
// {"error": {"code", "reason", "context", "hints"}}.
[[nodiscard]] Json error_json(const Error& error);
// The error as a terminal shows it: "error:" red and bold, "hint:" cyan.
[[nodiscard]] std::string styled_error(const Error& error, bool colour);

// Did the user ask for JSON? Known before the options are parsed, so that a usage error is JSON too.
[[nodiscard]] Format format_asked(std::span<const std::string> words);

}  // namespace startrail::cli
