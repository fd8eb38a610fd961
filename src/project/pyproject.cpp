#include "project/pyproject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/hash.hpp"
#include "project/requirement_line.hpp"
#include "project/requirements_file.hpp"
#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

// Only these decide what is installed; the rest of the file may change without the lock becoming stale.
std::string digest_of_deciding_tables(const TableValue& root) {
  Json deciding = Json::object();
  for (const char* key : {"dependencies", "requires-python", "dynamic", "name"})
    deciding["project"][key] = root.at("project").at(key).json();
  deciding["dependency-groups"] = root.at("dependency-groups").json();
  deciding["uv"] = root.at({"tool", "uv"}).json();
  deciding["poetry"] = root.at({"tool", "poetry"}).json();
  for (const char* key : {"version", "description", "authors", "readme", "scripts"}) {
    if (deciding["poetry"].is_object()) deciding["poetry"].erase(key);
  }
  deciding["setuptools"] = root.at({"tool", "setuptools", "dynamic", "dependencies"}).json();
  deciding["hatch"] = root.at({"tool", "hatch", "metadata", "hooks", "requirements_txt"}).json();
  return base::sha256_hex(base::to_compact_text(deciding));
}

Result<void> add_python(Declaration& declaration, const TableValue& value) {
  if (!value.is_text()) return {};
  auto specifier = SpecifierSet::parse(value.text());
  if (!specifier) {
    Error reason = std::move(specifier).error();
    reason.message = fmt::format("{}: requires-python: {}", to_text(value.origin()), reason.message);
    return fail(std::move(reason));
  }
  if (!specifier->text().empty()) declaration.python = Fact<std::string>{specifier->text(), value.origin()};
  return {};
}

class GroupReader {
 public:
  GroupReader(const Folder& folder, Declaration& declaration, const TableValue& groups)
      : m_folder(folder), m_declaration(declaration), m_groups(groups) {}

  // Group names are compared in their normal form (PEP 735).
  Result<void> add(std::string_view name, const Origin& asked_at) {
    for (const std::string& key : m_groups.keys())
      if (normalized_name(key) == normalized_name(name)) return add_group(key);
    return fail(ErrorCode::invalid_input,
                fmt::format("{}: there is no dependency group `{}`", to_text(asked_at), name));
  }

 private:
  Result<void> add_group(const std::string& key) {
    if (!m_seen.insert(key).second) return {};
    const TableValue group = m_groups.at(key);
    TRY(add_requirement_lines(m_folder, m_declaration, m_declaration.packages, group));
    for (std::size_t i = 0; group.is_list() && i < group.size(); ++i) {
      const TableValue included = group.at(i).at("include-group");
      if (included.is_text()) TRY(add(included.text(), included.origin()));
    }
    return {};
  }

  const Folder& m_folder;
  Declaration& m_declaration;
  const TableValue& m_groups;
  std::set<std::string> m_seen;
};

// uv installs its `default-groups` (else `dev`) beside the project. `dev` is for working on the code, so it is taken
// only when it is asked for by name; where nothing but groups is declared, they are the declaration.
Result<void> add_groups(const Folder& folder, Declaration& declaration, const TableValue& root) {
  const bool nothing_else = declaration.packages.empty();
  const TableValue groups = root.at("dependency-groups");
  if (!groups.is_table()) return {};
  const auto asked = root.at({"tool", "uv", "default-groups"}).texts();
  GroupReader reader(folder, declaration, groups);
  std::vector<std::string> left;
  for (const std::string& key : groups.keys()) {
    const auto named = [&](const Fact<std::string>& group) {
      return group.value == "all" || normalized_name(group.value) == normalized_name(key);
    };
    const bool wanted = std::ranges::any_of(asked, named) || (asked.empty() && nothing_else && !is_side_group(key));
    if (wanted) {
      TRY(reader.add(key, groups.at(key).origin()));
    } else {
      left.push_back(key);
    }
  }
  if (!left.empty())
    declaration.note(groups.origin(),
                     fmt::format("dependency group{} {} not taken; [tool.uv] default-groups chooses",
                                 left.size() == 1 ? "" : "s", enumerated(left) + (left.size() == 1 ? " is" : " are")));
  return {};
}

// setuptools and hatchling can take `dependencies` from requirements files.
Result<void> add_dynamic(const Folder& folder, Declaration& declaration, const TableValue& root) {
  const auto dynamic = root.at({"project", "dynamic"}).texts();
  if (std::ranges::none_of(dynamic, [](const auto& entry) { return entry.value == "dependencies"; })) return {};
  auto files = root.at({"tool", "setuptools", "dynamic", "dependencies", "file"}).texts();
  if (files.empty()) files = root.at({"tool", "hatch", "metadata", "hooks", "requirements_txt", "files"}).texts();
  if (files.empty()) {
    declaration.note(root.at({"project", "dynamic"}).origin(),
                     "the dependencies are computed by the build; they are looked for in other files");
    return {};
  }
  RequirementsFileReader reader(folder, declaration);
  for (const auto& file : files)
    TRY_CONTEXT(reader.add_file(file.value, Role::packages), fmt::format("named in {}", to_text(file.origin)));
  return {};
}

void note_extras(Declaration& declaration, const TableValue& extras) {
  const auto names = extras.keys();
  if (names.empty()) return;
  declaration.note(extras.origin(),
                   fmt::format("optional dependencies ({}) are not taken; `packages = [\"-e .[{}]\"]` in trail.toml "
                               "takes one",
                               enumerated(names), names.front()));
}

}  // namespace

Result<void> add_requirement_lines(const Folder& folder, Declaration& declaration, std::vector<Requirement>& target,
                                   const TableValue& list) {
  for (const auto& [line, origin] : list.texts()) {
    Requirement requirement = TRY(parse_requirement(line, origin));
    if (take_interpreter(declaration, requirement)) continue;
    if (TRY(check_path(folder, declaration, requirement))) target.push_back(std::move(requirement));
  }
  return {};
}

bool is_side_group(std::string_view name) {
  const std::string lower = to_lower(name);
  for (const std::string_view side : {"dev", "test", "lint", "doc", "typing", "format", "ci", "style", "release"})
    if (lower.starts_with(side)) return true;
  return false;
}

Reading read_pyproject(const Folder& folder) {
  if (!folder.has_file("pyproject.toml")) return std::nullopt;
  const TableFile file = TRY(folder.read_toml("pyproject.toml"));
  const TableValue root(file);
  Declaration declaration{.declared_by = DeclaredBy::pyproject, .file = file.file};
  const TableValue project = root.at("project");
  TRY(add_python(declaration, project.at("requires-python")));
  TRY(add_requirement_lines(folder, declaration, declaration.packages, project.at("dependencies")));
  TRY(add_dynamic(folder, declaration, root));
  if (project.is_table()) note_extras(declaration, project.at("optional-dependencies"));
  if (root.at({"tool", "poetry"}).is_table()) TRY(add_poetry(folder, declaration, root.at({"tool", "poetry"})));
  TRY(add_groups(folder, declaration, root));
  if (root.at({"tool", "uv"}).is_table()) TRY(add_uv(folder, declaration, root.at({"tool", "uv"})));
  declaration.sources.push_back({.file = file.file, .sha256 = digest_of_deciding_tables(root)});
  return declaration;
}

}  // namespace startrail::project
