// [tool.poetry] of pyproject.toml.
#include <fmt/format.h>

#include <algorithm>

#include "project/marker.hpp"
#include "project/pyproject.hpp"
#include "project/requirement_line.hpp"
#include "project/requirements_file.hpp"
#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

std::string joined(const std::vector<unsigned long>& release) {
  return fmt::format("{}", fmt::join(release, "."));
}

// ^: up to the next change of the first number that isn't zero.
std::string caret(const Version& version) {
  std::vector<unsigned long> upper = version.release();
  std::size_t at = 0;
  while (at + 1 < upper.size() && upper[at] == 0) ++at;
  upper.resize(at + 1);
  ++upper.back();
  return fmt::format(">={},<{}", version.text(), joined(upper));
}

// ~: up to the next change of the second number, or of the first when it is alone.
std::string tilde(const Version& version) {
  std::vector<unsigned long> upper = version.release();
  upper.resize(std::min<std::size_t>(upper.size(), 2));
  ++upper.back();
  return fmt::format(">={},<{}", version.text(), joined(upper));
}

Result<std::string> clause_of(std::string_view clause) {
  if (clause == "*") return std::string();
  const bool has_tilde = clause.starts_with('~') && !clause.starts_with("~=");
  if (clause.starts_with('^') || has_tilde) {
    const auto version = Version::parse(trimmed(clause.substr(1)));
    if (!version) return fail(ErrorCode::invalid_input, fmt::format("`{}` is not a version constraint", clause));
    return has_tilde ? tilde(*version) : caret(*version);
  }
  std::string written(clause);
  if (is_digit(clause.front())) written = "==" + written;
  if (clause.starts_with('=') && !clause.starts_with("==")) written = "=" + written;
  return TRY(SpecifierSet::parse(written)).text();
}

// Commas and blanks both separate; a blank after an operator doesn't.
std::vector<std::string> clauses_of(std::string_view constraint) {
  std::vector<std::string> clauses(1);
  for (const char c : constraint) {
    const bool after_operator = !clauses.back().empty() && is_one_of(clauses.back().back(), "<>=!~^");
    if (c == ',' || (is_blank(c) && !after_operator)) {
      if (!clauses.back().empty()) clauses.emplace_back();
    } else if (!is_blank(c)) {
      clauses.back() += c;
    }
  }
  if (clauses.back().empty()) clauses.pop_back();
  return clauses;
}

class PoetryReader {
 public:
  PoetryReader(const Folder& folder, Declaration& declaration, const TableValue& poetry)
      : m_folder(folder), m_declaration(declaration), m_poetry(poetry) {}

  Result<void> read() {
    read_sources();
    TRY(add_table(m_poetry.at("dependencies")));
    std::vector<std::string> left;
    if (m_poetry.at("dev-dependencies").is_table()) left.emplace_back("dev");
    const TableValue groups = m_poetry.at("group");
    for (const std::string& name : groups.keys()) {
      const Json& optional = groups.at(name).at("optional").json();
      if (is_side_group(name) || (optional.is_boolean() && optional.get<bool>())) {
        left.push_back(name);
      } else {
        TRY(add_table(groups.at({name, "dependencies"})));
      }
    }
    if (!left.empty())
      m_declaration.note((groups.is_table() ? groups : m_poetry).origin(),
                         fmt::format("the groups for work on the code ({}) are not taken", enumerated(left)));
    if (!m_optional.empty())
      m_declaration.note(m_poetry.at("dependencies").origin(),
                         fmt::format("optional dependencies are not taken: {}", enumerated(m_optional)));
    return {};
  }

 private:
  void read_sources() {
    const TableValue sources = m_poetry.at("source");
    for (std::size_t i = 0; sources.is_list() && i < sources.size(); ++i) {
      const TableValue source = sources.at(i);
      const Fact<std::string> url{source.at("url").text(), source.at("url").origin()};
      if (url.value.empty()) continue;
      m_sources[source.at("name").text()] = url.value;
      const std::string priority = source.at("priority").text();
      const Json& is_default = source.at("default").json();
      if (priority == "explicit") continue;
      if (priority == "default" || (is_default.is_boolean() && is_default.get<bool>())) {
        m_declaration.indexes.index_url = url;
      } else {
        m_declaration.indexes.extra_index_urls.push_back(url);
      }
    }
  }

  Result<void> add_table(const TableValue& dependencies) {
    for (const std::string& name : dependencies.keys()) {
      const TableValue value = dependencies.at(name);
      if (!value.is_list()) {
        TRY(add(name, value));
        continue;
      }
      for (std::size_t i = 0; i < value.size(); ++i) TRY(add(name, value.at(i)));  // one constraint per marker
    }
    return {};
  }

  Result<void> add(const std::string& name, const TableValue& value) {
    const Json& optional = value.at("optional").json();
    if (optional.is_boolean() && optional.get<bool>()) {
      m_optional.push_back(name);
      return {};
    }
    const std::string constraint = value.is_table() ? value.at("version").text() : value.text();
    Requirement requirement{.name = normalized_name(name), .origin = value.origin()};
    requirement.as_written = fmt::format("{} = \"{}\"", name, constraint);
    requirement.specifier = TRY(specifier_of(name, constraint, value.origin()));
    if (requirement.name == "python") {
      if (!requirement.specifier.empty())
        m_declaration.python = Fact<std::string>{requirement.specifier, value.origin()};
      return {};
    }
    for (const auto& extra : value.at("extras").texts()) requirement.extras.push_back(normalized_name(extra.value));
    requirement.marker = TRY(marker_of(value));
    take_location(requirement, value);
    if (value.at("source").is_text())
      if (const auto found = m_sources.find(value.at("source").text()); found != m_sources.end())
        m_declaration.indexes.package_index[requirement.name] = found->second;
    if (TRY(check_path(m_folder, m_declaration, requirement))) m_declaration.packages.push_back(std::move(requirement));
    return {};
  }

  Result<std::string> specifier_of(const std::string& name, const std::string& constraint, const Origin& origin) {
    std::string_view wanted = constraint;
    if (const std::size_t alternative = wanted.rfind('|'); alternative != std::string_view::npos) {
      wanted = trimmed(wanted.substr(alternative + 1));
      m_declaration.note(origin, fmt::format("{} = \"{}\": of the alternatives the last is taken", name, constraint));
    }
    auto specifier = poetry_specifier(wanted);
    if (specifier) return specifier;
    Error reason = std::move(specifier).error();
    reason.message = fmt::format("{}: {} = \"{}\": {}", to_text(origin), name, constraint, reason.message);
    return fail(std::move(reason));
  }

  static Result<std::string> marker_of(const TableValue& value) {
    std::string marker = value.at("markers").text();
    const std::string platform = value.at("platform").text();
    const auto add = [&](const std::string& part) {
      marker = marker.empty() ? part : fmt::format("({}) and {}", marker, part);
    };
    if (!platform.empty()) add(fmt::format("sys_platform == '{}'", platform));
    const std::string python = value.at("python").text();
    const std::string range = python.find('|') == std::string::npos ? TRY(poetry_specifier(python)) : std::string();
    for (const std::string_view clause : split(range, ',')) {
      const std::size_t digit = clause.find_first_of("0123456789");
      if (digit == std::string_view::npos) continue;
      std::string_view version = clause.substr(digit);
      if (version.ends_with(".*")) version.remove_suffix(2);
      add(fmt::format("python_version {} '{}'", clause.substr(0, digit), version));
    }
    if (auto parsed = Marker::parse(marker); !parsed) {
      Error reason = std::move(parsed).error();
      reason.message = fmt::format("{}: {}", to_text(value.origin()), reason.message);
      return fail(std::move(reason));
    }
    return marker;
  }

  const Folder& m_folder;
  Declaration& m_declaration;
  const TableValue& m_poetry;
  std::map<std::string, std::string> m_sources;
  std::vector<std::string> m_optional;
};

}  // namespace

Result<std::string> poetry_specifier(std::string_view constraint) {
  std::string result;
  for (const std::string& clause : clauses_of(constraint)) {
    const std::string converted = TRY(clause_of(clause));
    if (!converted.empty()) result += (result.empty() ? "" : ",") + converted;
  }
  return result;
}

Result<void> add_poetry(const Folder& folder, Declaration& declaration, const TableValue& poetry) {
  return PoetryReader(folder, declaration, poetry).read();
}

}  // namespace startrail::project
