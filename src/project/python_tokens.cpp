#include "project/python_tokens.hpp"

#include <algorithm>
#include <set>

#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

bool begins_name(char c) {
  return is_letter(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool continues_name(char c) {
  return begins_name(c) || is_digit(c);
}

// Length of a string literal's prefix at the start of `text` when a quote follows it.
std::optional<std::size_t> string_prefix(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && length < 3 && is_one_of(text[length], "rRbBuUfFtT")) ++length;
  if (length < text.size() && is_one_of(text[length], "'\"")) return length;
  return std::nullopt;
}

class StringScanner {
 public:
  explicit StringScanner(std::string_view text) : m_text(text) {}

  // End of the literal that begins at `start`; an unclosed one ends with its line, or with the file when triple-quoted.
  std::size_t end_of_literal(std::size_t start, int depth = 0) const {
    const std::size_t prefix = string_prefix(m_text.substr(start)).value_or(0);
    const std::string_view flags = m_text.substr(start, prefix);
    const bool interpolated = flags.find_first_of("fFtT") != std::string_view::npos;
    if (interpolated && depth < 20)
      if (const std::size_t end = scan(start + prefix, depth, Fields::yes); end != std::string_view::npos) return end;
    return scan(start + prefix, depth, Fields::no);
  }

 private:
  enum class Fields { no, yes };

  // npos only with fields: one of them isn't closed, so it's no f-string after all.
  std::size_t scan(std::size_t at, int depth, Fields fields) const {
    const char quote = m_text[at];
    const std::string_view triple = m_text.substr(at, 3);
    const bool is_triple = triple.size() == 3 && triple[1] == quote && triple[2] == quote;
    at += is_triple ? 3 : 1;
    while (at < m_text.size()) {
      const char c = m_text[at];
      if (c == '\\') {
        at += 2;
      } else if (c == quote && (!is_triple || m_text.substr(at, 3) == triple)) {
        return at + (is_triple ? 3 : 1);
      } else if (c == '\n' && !is_triple) {
        return at;
      } else if (fields == Fields::yes && c == '{') {
        if (m_text.substr(at, 2) == "{{") {
          at += 2;
          continue;
        }
        at = end_of_field(at + 1, depth + 1, is_triple);
        if (at == std::string_view::npos) return at;
      } else {
        ++at;
      }
    }
    return std::min(at, m_text.size());
  }

  // Past the '}' of a replacement field; nested literals may use the outer quote (PEP 701).
  std::size_t end_of_field(std::size_t at, int depth, bool is_triple) const {
    if (depth > 20) return std::string_view::npos;
    int open = 0;
    bool in_format = false;
    while (at < m_text.size()) {
      const char c = m_text[at];
      if (c == '\n' && !is_triple && open == 0) return std::string_view::npos;
      if (in_format) {
        if (c == '{') {
          at = end_of_field(at + 1, depth + 1, is_triple);
          if (at == std::string_view::npos) return at;
          continue;
        }
        if (c == '}') return at + 1;
        if (is_one_of(c, "'\"")) return std::string_view::npos;
      } else if (is_one_of(c, "'\"")) {
        at = end_of_literal(at, depth + 1);
        continue;
      } else if (is_one_of(c, "([{")) {
        ++open;
      } else if (c == '}' && open == 0) {
        return at + 1;
      } else if (is_one_of(c, ")]}")) {
        --open;
      } else if (c == ':' && open == 0) {
        in_format = true;
      }
      ++at;
    }
    return std::string_view::npos;
  }

  std::string_view m_text;
};

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view source) : m_source(source), m_strings(source) {}

  std::vector<Statement> run() {
    while (m_at < m_source.size()) {
      begin_line();
      while (m_at < m_source.size() && !end_of_logical_line()) take_token();
      emit_line();
    }
    return std::move(m_result);
  }

 private:
  // Tabs go to the next multiple of eight; a form feed starts again (reference, "Indentation").
  void begin_line() {
    m_indent = 0;
    for (; m_at < m_source.size(); ++m_at) {
      const char c = m_source[m_at];
      if (c == ' ') {
        ++m_indent;
      } else if (c == '\t') {
        m_indent = m_indent / 8 * 8 + 8;
      } else if (c == '\f') {
        m_indent = 0;
      } else {
        break;
      }
    }
  }

  // Skips blanks, comments, joined lines and line ends inside brackets; true at the newline that ends a statement.
  bool end_of_logical_line() {
    while (m_at < m_source.size()) {
      const char c = m_source[m_at];
      if (c == '#') {
        while (m_at < m_source.size() && m_source[m_at] != '\n') ++m_at;
      } else if (c == '\\' && m_at + 1 < m_source.size() && m_source[m_at + 1] == '\n') {
        m_at += 2;
        ++m_line;
      } else if (c == '\n') {
        ++m_at;
        ++m_line;
        if (m_depth == 0) return true;
      } else if (is_blank(c)) {
        ++m_at;
      } else {
        return false;
      }
    }
    return true;
  }

  void take_token() {
    const std::size_t start = m_at;
    const int line = m_line;
    const char c = m_source[m_at];
    TokenKind kind = TokenKind::operation;
    if (string_prefix(m_source.substr(m_at))) {
      kind = TokenKind::text;
      m_at = m_strings.end_of_literal(m_at);
      m_line += static_cast<int>(std::ranges::count(m_source.substr(start, m_at - start), '\n'));
    } else if (begins_name(c)) {
      kind = TokenKind::name;
      while (m_at < m_source.size() && continues_name(m_source[m_at])) ++m_at;
    } else if (is_digit(c)) {
      kind = TokenKind::number;
      while (m_at < m_source.size() && (continues_name(m_source[m_at]) || m_source[m_at] == '.')) ++m_at;
    } else {
      take_operation();
    }
    m_tokens.push_back({.kind = kind, .text = m_source.substr(start, m_at - start), .line = line});
  }

  void take_operation() {
    const char c = m_source[m_at];
    if (is_one_of(c, "([{")) ++m_depth;
    if (is_one_of(c, ")]}") && m_depth > 0) --m_depth;
    const std::string_view two = m_source.substr(m_at, 2);
    const bool pair = two == "==" || two == "!=" || two == "<=" || two == ">=" || two == "->" || two == ":=" ||
                      two == "**" || two == "//" || two == "+=" || two == "-=";
    m_at += pair ? 2 : 1;
  }

  void emit_line() {
    m_depth = 0;
    emit(m_indent, 0);
    m_tokens.clear();
  }

  // Splits the line's tokens from `first` on at ';' and after the colon of a block's head.
  void emit(int indent, std::size_t first) {
    while (first < m_tokens.size()) {
      const std::size_t end = end_of_statement(first);
      if (end > first)
        m_result.push_back({.indent = indent,
                            .tokens = {m_tokens.begin() + static_cast<std::ptrdiff_t>(first),
                                       m_tokens.begin() + static_cast<std::ptrdiff_t>(end)}});
      const bool head = end > first && m_tokens[end - 1].is(":") && is_head(m_tokens[first]);
      if (head) ++indent;
      first = head ? end : end + 1;
    }
  }

  static bool is_head(const Token& token) {
    static const std::set<std::string_view> words{"if",    "elif", "else",  "try", "except", "finally", "for",
                                                  "while", "with", "class", "def", "async",  "match",   "case"};
    return token.kind == TokenKind::name && words.contains(token.text);
  }

  std::size_t end_of_statement(std::size_t first) const {
    int depth = 0;
    int lambdas = 0;
    for (std::size_t i = first; i < m_tokens.size(); ++i) {
      const Token& token = m_tokens[i];
      if (token.kind == TokenKind::text) continue;
      if (is_one_of(token.text.front(), "([{")) ++depth;
      if (is_one_of(token.text.front(), ")]}")) --depth;
      if (depth > 0) continue;
      if (token.text == ";") return i;
      if (token.text == "lambda") ++lambdas;
      if (token.text != ":" || !is_head(m_tokens[first])) continue;
      if (lambdas == 0) return i + 1;
      --lambdas;
    }
    return m_tokens.size();
  }

  std::string_view m_source;
  StringScanner m_strings;
  std::size_t m_at = 0;
  int m_line = 1, m_indent = 0, m_depth = 0;
  std::vector<Token> m_tokens;
  std::vector<Statement> m_result;
};

}  // namespace

bool Statement::mentions(std::string_view word) const {
  return std::ranges::any_of(tokens, [&](const Token& token) { return token.is(word); });
}

std::vector<Statement> statements(std::string_view source) {
  return Tokenizer(source).run();
}

std::optional<std::string> literal_value(std::string_view literal) {
  const auto prefix = string_prefix(literal);
  if (!prefix) return std::nullopt;
  const std::string_view flags = literal.substr(0, *prefix);
  if (flags.find_first_of("fFtT") != std::string_view::npos) return std::nullopt;
  const bool raw = flags.find_first_of("rR") != std::string_view::npos;
  std::string_view body = literal.substr(*prefix);
  const std::size_t quotes = body.size() >= 6 && body[1] == body[0] && body[2] == body[0] ? 3 : 1;
  if (body.size() < 2 * quotes || body.back() != body.front()) return std::nullopt;
  body = body.substr(quotes, body.size() - 2 * quotes);
  std::string value;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || raw || i + 1 >= body.size()) {
      value += body[i];
      continue;
    }
    const char c = body[++i];
    if (c == 'n')
      value += '\n';
    else if (c == 't')
      value += '\t';
    else if (c != '\n')
      value += c;
  }
  return value;
}

}  // namespace startrail::project
