#include "project/marker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {

struct Marker::Node {
  enum class Kind { comparison, all, any } kind = Kind::comparison;
  struct Value {
    std::string text;
    bool variable = false;
  };
  Value left, right;
  std::string operation;
  std::vector<std::shared_ptr<const Node>> children;
};

namespace {

using Node = Marker::Node;
using NodePointer = std::shared_ptr<const Node>;

// PEP 508's variables, PEP 751's two, and the dotted names of PEP 345 that old files still carry.
constexpr std::pair<std::string_view, std::string_view> k_variables[] = {
    {"python_version", "python_version"},
    {"python_full_version", "python_full_version"},
    {"os_name", "os_name"},
    {"sys_platform", "sys_platform"},
    {"platform_release", "platform_release"},
    {"platform_system", "platform_system"},
    {"platform_version", "platform_version"},
    {"platform_machine", "platform_machine"},
    {"platform_python_implementation", "platform_python_implementation"},
    {"implementation_name", "implementation_name"},
    {"implementation_version", "implementation_version"},
    {"extra", "extra"},
    {"extras", "extras"},
    {"dependency_groups", "dependency_groups"},
    {"os.name", "os_name"},
    {"sys.platform", "sys_platform"},
    {"platform.version", "platform_version"},
    {"platform.machine", "platform_machine"},
    {"platform.python_implementation", "platform_python_implementation"},
    {"python_implementation", "platform_python_implementation"}};

class MarkerParser {
 public:
  explicit MarkerParser(std::string_view text) : m_all(text), m_rest(text) {}

  Result<NodePointer> parse() {
    NodePointer root = TRY(any_of());
    if (!next_word().empty()) return refuse(fmt::format("`{}` was not expected", m_rest));
    return root;
  }

 private:
  std::unexpected<Error> refuse(const std::string& why) const {
    return fail(error(ErrorCode::invalid_input,
                      fmt::format("the marker `{}` is not valid (PEP 508): {}", quotable(trimmed(m_all)), why))
                    .with_hint("a marker compares, as in `; python_version < \"3.9\" and sys_platform == \"linux\"`"));
  }

  std::string_view next_word() {
    m_rest = trimmed(m_rest);
    std::size_t length = 0;
    while (length < m_rest.size() && (is_alphanumeric(m_rest[length]) || is_one_of(m_rest[length], "_."))) ++length;
    return m_rest.substr(0, length == 0 ? std::min<std::size_t>(1, m_rest.size()) : length);
  }

  bool take(std::string_view word) {
    if (next_word() != word) return false;
    m_rest.remove_prefix(word.size());
    return true;
  }

  Result<NodePointer> chain(Node::Kind kind, std::string_view word, Result<NodePointer> (MarkerParser::*part)()) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    do {
      node->children.push_back(TRY((this->*part)()));
    } while (take(word));
    return node->children.size() == 1 ? node->children.front() : NodePointer(node);
  }

  Result<NodePointer> any_of() { return chain(Node::Kind::any, "or", &MarkerParser::all_of); }
  Result<NodePointer> all_of() { return chain(Node::Kind::all, "and", &MarkerParser::term); }

  Result<NodePointer> term() {
    if (!take("(")) return comparison();
    if (++m_depth > 50) return refuse("it is nested too deeply");
    NodePointer inner = TRY(any_of());
    if (!take(")")) return refuse("a `)` is missing");
    --m_depth;
    return inner;
  }

  Result<NodePointer> comparison() {
    auto node = std::make_shared<Node>();
    node->left = TRY(value());
    node->operation = TRY(operation());
    node->right = TRY(value());
    if (node->left.variable == node->right.variable)
      return refuse("each comparison needs one variable and one quoted text");
    return NodePointer(node);
  }

  Result<std::string> operation() {
    m_rest = trimmed(m_rest);
    for (const std::string_view sign : {"===", "==", "!=", "~=", "<=", ">=", "<", ">"}) {
      if (!m_rest.starts_with(sign)) continue;
      m_rest.remove_prefix(sign.size());
      return std::string(sign);
    }
    if (take("in")) return std::string("in");
    if (take("not") && take("in")) return std::string("not in");
    return refuse("a comparison (==, <, in, …) is missing");
  }

  Result<Node::Value> value() {
    m_rest = trimmed(m_rest);
    if (m_rest.empty()) return refuse("it ends too early");
    if (is_one_of(m_rest.front(), "'\"")) return quoted();
    const std::string_view word = next_word();
    for (const auto& [written, meant] : k_variables) {
      if (word != written) continue;
      m_rest.remove_prefix(word.size());
      return Node::Value{.text = std::string(meant), .variable = true};
    }
    return refuse(fmt::format("`{}` is not a marker variable", word));
  }

  Result<Node::Value> quoted() {
    const std::size_t end = m_rest.find(m_rest.front(), 1);
    if (end == std::string_view::npos) return refuse("a quote is not closed");
    Node::Value result{.text = std::string(m_rest.substr(1, end - 1)), .variable = false};
    m_rest.remove_prefix(end + 1);
    return result;
  }

  std::string_view m_all, m_rest;
  int m_depth = 0;
};

bool compare_texts(std::string_view left, std::string_view operation, std::string_view right) {
  if (operation == "in") return right.find(left) != std::string_view::npos;
  if (operation == "not in") return right.find(left) == std::string_view::npos;
  if (operation == "!=") return left != right;
  if (operation == "<=") return left <= right;
  if (operation == ">=") return left >= right;
  if (operation == "<") return left < right;
  if (operation == ">") return left > right;
  return left == right;
}

// PEP 508: as versions where both sides are, else as texts.
bool compare(const std::string& left, const std::string& operation, const std::string& right) {
  if (operation == "in" || operation == "not in") return compare_texts(left, operation, right);
  const auto version = Version::parse(left);
  const auto specifier = SpecifierSet::parse(operation + right);
  if (version && specifier) {
    if (specifier->contains(*version)) return true;
    return !version->is_prerelease() ? false : compare_texts(left, operation, right);
  }
  return compare_texts(left, operation, right);
}

std::string mirrored(const std::string& operation) {
  if (operation.starts_with('<')) return ">" + operation.substr(1);
  if (operation.starts_with('>')) return "<" + operation.substr(1);
  return operation;
}

Truth judge_comparison(const Node& node, const MarkerEnvironment& environment) {
  const std::string& variable = node.left.variable ? node.left.text : node.right.text;
  const auto found = environment.find(variable);
  if (found == environment.end()) return Truth::unknown;
  if (node.left.variable) return compare(found->second, node.operation, node.right.text) ? Truth::yes : Truth::no;
  const bool membership = node.operation == "in" || node.operation == "not in";
  const bool holds = membership ? compare_texts(node.left.text, node.operation, found->second)
                                : compare(found->second, mirrored(node.operation), node.left.text);
  return holds ? Truth::yes : Truth::no;
}

Truth judge(const Node& node, const MarkerEnvironment& environment) {
  if (node.kind == Node::Kind::comparison) return judge_comparison(node, environment);
  const bool all = node.kind == Node::Kind::all;
  Truth result = all ? Truth::yes : Truth::no;
  for (const NodePointer& child : node.children) {
    const Truth truth = judge(*child, environment);
    result = all ? std::min(result, truth) : std::max(result, truth);
  }
  return result;
}

}  // namespace

const MarkerEnvironment& linux_environment() {
  static const MarkerEnvironment environment{{"os_name", "posix"},
                                             {"sys_platform", "linux"},
                                             {"platform_system", "Linux"},
                                             {"platform_python_implementation", "CPython"},
                                             {"implementation_name", "cpython"},
                                             {"extra", ""}};
  return environment;
}

Result<Marker> Marker::parse(std::string_view text) {
  Marker marker;
  if (!trimmed(text).empty()) marker.m_root = TRY(MarkerParser(text).parse());
  return marker;
}

Truth Marker::evaluate(const MarkerEnvironment& environment) const {
  return m_root ? judge(*m_root, environment) : Truth::yes;
}

}  // namespace startrail::project
