#include "lock/marker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "lock/suite.hpp"
#include "project/requirements.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

constexpr int k_deepest_nesting = 64;

// One side of a comparison: a quoted literal, or a variable of the environment.
struct Operand {
  bool is_variable = false;
  std::string text;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// Variables whose values are versions; everything else compares as text (PEP 508, "Environment Markers").
bool compares_as_version(const Operand& operand) {
  static constexpr std::array k_names{"python_version", "python_full_version", "implementation_version"};
  return operand.is_variable && std::ranges::find(k_names, operand.text) != k_names.end();
}

bool compare_text(std::string_view left, std::string_view operation, std::string_view right) {
  if (operation == "==" || operation == "===") return left == right;
  if (operation == "!=") return left != right;
  if (operation == "<") return left < right;
  if (operation == "<=") return left <= right;
  if (operation == ">") return left > right;
  return left >= right;
}

class Parser {
 public:
  Parser(std::string_view text, const MarkerEnvironment& environment) : m_text(text), m_environment(environment) {}

  Result<bool> whole() {
    const bool value = TRY(alternatives());
    skip_space();
    if (m_at != m_text.size()) return unexpected("the end");
    return value;
  }

 private:
  Result<bool> alternatives() {
    bool value = TRY(conjunction());
    while (take_word("or")) {
      const bool next = TRY(conjunction());
      value = value || next;
    }
    return value;
  }

  Result<bool> conjunction() {
    bool value = TRY(term());
    while (take_word("and")) {
      const bool next = TRY(term());
      value = value && next;
    }
    return value;
  }

  Result<bool> term() {
    skip_space();
    if (m_at < m_text.size() && m_text[m_at] == '(') {
      if (++m_depth > k_deepest_nesting) return unexpected("fewer parentheses");
      ++m_at;
      const bool value = TRY(alternatives());
      skip_space();
      if (m_at == m_text.size() || m_text[m_at] != ')') return unexpected("')'");
      ++m_at;
      --m_depth;
      return value;
    }
    const Operand left = TRY(operand());
    const std::string operation = TRY(comparison_operator());
    const Operand right = TRY(operand());
    return compare(left, operation, right);
  }

  Result<Operand> operand() {
    skip_space();
    if (m_at == m_text.size()) return unexpected("a variable or a quoted string");
    if (const char quote = m_text[m_at]; quote == '\'' || quote == '"') {
      const auto end = m_text.find(quote, m_at + 1);
      if (end == std::string_view::npos) return unexpected("a closing quote");
      Operand literal{.is_variable = false, .text = std::string(m_text.substr(m_at + 1, end - m_at - 1))};
      m_at = end + 1;
      return literal;
    }
    std::string name = word();
    // Deprecated spellings that PEP 345 files still carry: "os.name", "python_implementation".
    std::ranges::replace(name, '.', '_');
    if (name == "python_implementation") name = "platform_python_implementation";
    const bool known =
        m_environment.values.contains(name) || name == "extra" || name == "extras" || name == "dependency_groups";
    if (!known) return unexpected("a marker variable");
    m_at += name.size();
    return Operand{.is_variable = true, .text = std::move(name)};
  }

  Result<std::string> comparison_operator() {
    skip_space();
    for (const std::string_view operation : {"===", "==", "!=", "<=", ">=", "~=", "<", ">"}) {
      if (m_text.substr(m_at).starts_with(operation)) {
        m_at += operation.size();
        return std::string(operation);
      }
    }
    if (take_word("in")) return std::string("in");
    if (take_word("not") && take_word("in")) return std::string("not in");
    return unexpected("a comparison");
  }

  Result<bool> compare(const Operand& left, const std::string& operation, const Operand& right) const {
    if (const auto* names = set_named(right)) {
      const bool found = names->contains(project::normalized_name(left.text));
      return operation == "in" ? found : !found;
    }
    if (is_extra(left) || is_extra(right)) return compare_extra(is_extra(left) ? right : left, operation);
    const std::string left_value = value_of(left);
    const std::string right_value = value_of(right);
    if (operation == "in") return right_value.find(left_value) != std::string::npos;
    if (operation == "not in") return right_value.find(left_value) == std::string::npos;
    if (compares_as_version(left) || compares_as_version(right)) {
      const auto version = project::Version::parse(left_value);
      const auto specifier = project::SpecifierSet::parse(operation + right_value);
      if (version && specifier) return specifier->contains(*version);
    }
    return compare_text(left_value, operation, right_value);
  }

  [[nodiscard]] bool compare_extra(const Operand& wanted, std::string_view operation) const {
    const bool chosen = m_environment.extras.contains(project::normalized_name(wanted.text));
    return operation == "!=" ? !chosen : chosen;
  }

  [[nodiscard]] static bool is_extra(const Operand& operand) { return operand.is_variable && operand.text == "extra"; }

  [[nodiscard]] const std::set<std::string, std::less<>>* set_named(const Operand& operand) const {
    if (!operand.is_variable) return nullptr;
    if (operand.text == "extras") return &m_environment.extras;
    if (operand.text == "dependency_groups") return &m_environment.dependency_groups;
    return nullptr;
  }

  [[nodiscard]] std::string value_of(const Operand& operand) const {
    if (!operand.is_variable) return operand.text;
    const auto found = m_environment.values.find(operand.text);
    return found == m_environment.values.end() ? "" : found->second;
  }

  void skip_space() {
    while (m_at < m_text.size() && std::isspace(static_cast<unsigned char>(m_text[m_at])) != 0) ++m_at;
  }

  [[nodiscard]] std::string word() const {
    auto end = m_at;
    while (end < m_text.size() && is_word(m_text[end])) ++end;
    return std::string(m_text.substr(m_at, end - m_at));
  }

  bool take_word(std::string_view wanted) {
    skip_space();
    if (word() != wanted) return false;
    m_at += wanted.size();
    return true;
  }

  [[nodiscard]] std::unexpected<Error> unexpected(std::string_view expected) const {
    return fail(ErrorCode::invalid_input,
                fmt::format("the marker \"{}\" should have {} at column {}", m_text, expected, m_at + 1));
  }

  std::string_view m_text;
  const MarkerEnvironment& m_environment;
  std::size_t m_at = 0;
  int m_depth = 0;
};

}  // namespace

MarkerEnvironment marker_environment(std::string_view minor) {
  const std::string full = full_python_version(minor);
  MarkerEnvironment environment;
  environment.values = {
      {"os_name", "posix"},
      {"sys_platform", "linux"},
      {"platform_machine", "x86_64"},
      {"platform_python_implementation", "CPython"},
      {"platform_release", ""},
      {"platform_system", "Linux"},
      {"platform_version", ""},
      {"python_version", std::string(minor)},
      {"python_full_version", full},
      {"implementation_name", "cpython"},
      {"implementation_version", full},
  };
  return environment;
}

Result<bool> evaluate_marker(std::string_view marker, const MarkerEnvironment& environment) {
  if (std::ranges::all_of(marker, [](unsigned char c) { return std::isspace(c) != 0; })) return true;
  return Parser(marker, environment).whole();
}

}  // namespace startrail::lock
