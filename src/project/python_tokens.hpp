// Python source as statements of tokens. Good for both Python 2 and 3; never fails: what it can't make sense of
// becomes an operator token.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace startrail::project {

enum class TokenKind { name, number, text, operation };

struct Token {
  TokenKind kind = TokenKind::operation;
  std::string_view text;  // a string literal with prefix and quotes
  int line = 0;
  [[nodiscard]] bool is(std::string_view word) const { return kind != TokenKind::text && text == word; }
};

// A simple statement or the head of a block (`try:`). What follows a head or a ';' on its line is a statement of
// its own, indented more than the head.
struct Statement {
  int indent = 0;
  std::vector<Token> tokens;
  [[nodiscard]] bool begins_with(std::string_view word) const { return !tokens.empty() && tokens.front().is(word); }
  [[nodiscard]] bool mentions(std::string_view word) const;
};

// Views into `source`, which must outlive the result.
// Rules: The Python Language Reference, "Lexical analysis"; PEP 701 for f-strings.
[[nodiscard]] std::vector<Statement> statements(std::string_view source);

// The value of a literal without interpolation; nullopt for f-strings.
[[nodiscard]] std::optional<std::string> literal_value(std::string_view literal);

}  // namespace startrail::project
