// setup.cfg and setup.py. The latter is read, never run: only literals count.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "project/declaration.hpp"
#include "project/python_tokens.hpp"
#include "project/requirement_line.hpp"
#include "project/requirements_file.hpp"
#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

struct CfgEntry {
  std::string section, key, value;
  int line = 0;  // of `value`
};

// One entry per non-empty line of a value; setuptools' documentation, "Configuring setuptools using setup.cfg files".
std::vector<CfgEntry> cfg_entries(std::string_view text) {
  std::vector<CfgEntry> entries;
  std::string section, key;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#' || content.front() == ';') continue;
    if (is_blank(line.front())) {
      entries.push_back({.section = section, .key = key, .value = std::string(content), .line = number});
    } else if (content.front() == '[') {
      section = trimmed(content.substr(1, content.find(']') - 1));
      key.clear();
    } else {
      const std::size_t separator = content.find_first_of("=:");
      key = to_lower(trimmed(content.substr(0, separator)));
      if (separator == std::string_view::npos) continue;
      const std::string_view value = trimmed(content.substr(separator + 1));
      if (!value.empty())
        entries.push_back({.section = section, .key = key, .value = std::string(value), .line = number});
    }
  }
  return entries;
}

Result<void> add_line(const Folder& folder, Declaration& declaration, std::string_view line, const Origin& origin) {
  line = trimmed(line.substr(0, line.find(" #")));
  if (line.empty()) return {};
  Requirement requirement = TRY(parse_requirement(line, origin));
  if (take_interpreter(declaration, requirement)) return {};
  if (TRY(check_path(folder, declaration, requirement))) declaration.packages.push_back(std::move(requirement));
  return {};
}

void add_python(Declaration& declaration, std::string_view text, const Origin& origin) {
  if (const auto specifier = SpecifierSet::parse(text); specifier && !specifier->text().empty()) {
    declaration.python = Fact<std::string>{specifier->text(), origin};
  } else if (!specifier) {
    declaration.note(origin, fmt::format("python_requires `{}` is not valid and not followed", text));
  }
}

Result<void> add_setup_cfg(const Folder& folder, Declaration& declaration) {
  const TextFile file = TRY(folder.read_text("setup.cfg"));
  declaration.sources.push_back({.file = file.file, .sha256 = file.sha256});
  for (const CfgEntry& entry : cfg_entries(file.text)) {
    if (entry.section != "options") continue;
    const Origin origin{.file = file.file, .line = entry.line};
    if (entry.key == "python_requires") add_python(declaration, entry.value, origin);
    if (entry.key != "install_requires") continue;
    if (entry.value.starts_with("file:")) {
      RequirementsFileReader reader(folder, declaration);
      for (const std::string_view name : split(std::string_view(entry.value).substr(5), ','))
        TRY_CONTEXT(reader.add_file(std::string(trimmed(name)), Role::packages),
                    fmt::format("named in {}", to_text(origin)));
      continue;
    }
    TRY(add_line(folder, declaration, entry.value, origin));
  }
  return {};
}

struct Literal {
  std::vector<Fact<std::string>> texts;
  bool complete = true;  // nothing but literals
};

class SetupScript {
 public:
  SetupScript(const TextFile& file) : m_file(file), m_statements(statements(file.text)) {
    for (const Statement& statement : m_statements) {
      const auto& tokens = statement.tokens;
      if (tokens.size() > 2 && tokens[0].kind == TokenKind::name && tokens[1].is("="))
        m_names[std::string(tokens[0].text)] = literal_at(tokens, 2);
      if (tokens.size() > 3 && tokens[0].kind == TokenKind::name && tokens[1].is("+=")) extend(tokens);
    }
  }

  // The value of `install_requires=…` in a call, of "install_requires": … in a dict, or of a variable of that name
  // which is used as such.
  std::optional<Literal> argument(std::string_view name) const {
    for (const Statement& statement : m_statements) {
      const auto& tokens = statement.tokens;
      for (std::size_t i = 1; i + 2 < tokens.size(); ++i) {
        const bool keyword = tokens[i].is(name) && tokens[i + 1].is("=");
        const bool key =
            tokens[i].kind == TokenKind::text && literal_value(tokens[i].text) == name && tokens[i + 1].is(":");
        if (keyword || key) return literal_at(tokens, i + 2);
      }
    }
    return std::nullopt;
  }

  // A string that names a requirements file anywhere in the script.
  std::optional<Fact<std::string>> requirements_file() const {
    for (const Statement& statement : m_statements)
      for (const Token& token : statement.tokens) {
        if (token.kind != TokenKind::text) continue;
        const auto value = literal_value(token.text);
        if (value && value->ends_with(".txt") && contains_ignoring_case(*value, "requirement"))
          return Fact<std::string>{*value, {.file = m_file.file, .line = token.line}};
      }
    return std::nullopt;
  }

 private:
  void extend(const std::vector<Token>& tokens) {
    const auto found = m_names.find(std::string(tokens[0].text));
    if (found == m_names.end()) return;
    const Literal more = literal_at(tokens, 2);
    found->second.texts.insert(found->second.texts.end(), more.texts.begin(), more.texts.end());
    found->second.complete = found->second.complete && more.complete;
  }

  // Literals, names bound to literals, lists and sums of these, up to the ',' or ')' that ends the expression.
  Literal literal_at(const std::vector<Token>& tokens, std::size_t at) const {
    Literal result;
    int depth = 0;
    bool adjacent = false;  // "a" "b" is one text
    for (; at < tokens.size(); ++at) {
      const Token& token = tokens[at];
      const bool opens = token.is("[") || token.is("(") || token.is("{");
      const bool closes = token.is("]") || token.is(")") || token.is("}");
      if (depth == 0 && (token.is(",") || closes)) break;
      depth += opens ? 1 : closes ? -1 : 0;
      if (token.kind == TokenKind::text) {
        const auto value = literal_value(token.text);
        if (!value) {
          result.complete = false;
        } else if (adjacent && !result.texts.empty()) {
          result.texts.back().value += *value;
        } else {
          result.texts.push_back({*value, {.file = m_file.file, .line = token.line}});
        }
        adjacent = true;
        continue;
      }
      adjacent = false;
      if (token.kind == TokenKind::name) {
        take_name(result, token);
      } else if (!opens && !closes && !token.is(",") && !token.is("+")) {
        result.complete = false;
      }
    }
    return result;
  }

  void take_name(Literal& result, const Token& token) const {
    const auto bound = m_names.find(std::string(token.text));
    if (bound == m_names.end()) {
      result.complete = false;
      return;
    }
    result.texts.insert(result.texts.end(), bound->second.texts.begin(), bound->second.texts.end());
    result.complete = result.complete && bound->second.complete;
  }

  const TextFile& m_file;
  std::vector<Statement> m_statements;
  std::map<std::string, Literal> m_names;
};

Result<void> add_setup_py(const Folder& folder, Declaration& declaration) {
  const TextFile file = TRY(folder.read_text("setup.py"));
  declaration.sources.push_back({.file = file.file, .sha256 = file.sha256});
  const SetupScript script(file);
  if (const auto python = script.argument("python_requires"); python && python->complete && python->texts.size() == 1)
    add_python(declaration, python->texts.front().value, python->texts.front().origin);
  const auto required = script.argument("install_requires");
  if (!required) return {};
  if (!required->complete) {
    const auto named = script.requirements_file();
    declaration.note({.file = file.file, .line = named ? named->origin.line : 0},
                     named ? fmt::format("install_requires is read from {} when setup.py runs", named->value)
                           : "install_requires is computed when setup.py runs, so it is not known");
    if (named && !folder.has_file(named->value)) return {};
    if (named) return RequirementsFileReader(folder, declaration).add_file(named->value, Role::packages);
    return {};
  }
  for (const auto& text : required->texts)
    for (const std::string_view line : split(text.value, '\n')) TRY(add_line(folder, declaration, line, text.origin));
  return {};
}

}  // namespace

Reading read_setup(const Folder& folder) {
  Declaration declaration{.declared_by = DeclaredBy::setup_py, .file = "setup.cfg"};
  if (folder.has_file("setup.cfg")) TRY(add_setup_cfg(folder, declaration));
  if (folder.has_file("setup.py") && !declaration.declares_packages()) {
    declaration.file = "setup.py";
    TRY(add_setup_py(folder, declaration));
  }
  if (declaration.sources.empty()) return std::nullopt;
  return declaration;
}

}  // namespace startrail::project
