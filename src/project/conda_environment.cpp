// conda's environment.yml.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "project/conda_spec.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

bool is_yaml(std::string_view name) {
  return name.ends_with(".yml") || name.ends_with(".yaml");
}

// "environment.yml" first, then its kin; among equals the one for GPUs, then by name.
int rank(std::string_view name) {
  const std::string_view stem = name.substr(0, name.rfind('.'));
  if (stem == "environment") return 0;
  if (stem == "conda" || stem == "env" || stem == "conda_env" || stem == "conda-env") return 1;
  const std::string lower = to_lower(stem);
  if (lower.find("gpu") != std::string::npos || lower.find("cuda") != std::string::npos) return 2;
  return lower.find("cpu") != std::string::npos || lower.find("dev") != std::string::npos ||
                 lower.find("doc") != std::string::npos
             ? 4
             : 3;
}

bool is_conda_name(std::string_view name) {
  if (!is_yaml(name)) return false;
  const std::string stem = to_lower(name.substr(0, name.rfind('.')));
  return stem.starts_with("environment") || stem.starts_with("conda") || stem == "env" || stem.ends_with("environment");
}

std::vector<std::string> candidates(const Folder& folder) {
  std::vector<std::string> names;
  std::ranges::copy_if(folder.names(), std::back_inserter(names),
                       [&](const std::string& name) { return is_conda_name(name) && folder.has_file(name); });
  std::ranges::stable_sort(names, {}, rank);
  return names;
}

// The `pip:` list is installed after conda's packages, and so has the last word on a package that both name.
void let_pip_win(Declaration& declaration, std::vector<Requirement> from_pip) {
  for (Requirement& requirement : from_pip) {
    const auto same = std::ranges::find_if(declaration.packages, [&](const Requirement& other) {
      return !requirement.name.empty() && other.name == requirement.name;
    });
    if (same != declaration.packages.end()) {
      if (same->specifier != requirement.specifier)
        declaration.note(requirement.origin, fmt::format("{} replaces {} of line {}", requirement.as_written,
                                                         same->as_written, same->origin.line));
      declaration.packages.erase(same);
    }
    declaration.packages.push_back(std::move(requirement));
  }
}

Result<void> add_pip_list(const Folder& folder, Declaration& declaration, const Json& list,
                          const base::Document& document, const std::string& pointer, const std::string& file) {
  Declaration from_pip;
  RequirementsFileReader reader(folder, from_pip);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string()) continue;
    const int line = document.line_of(fmt::format("{}/{}", pointer, i));
    for (const JoinedLine& part : joined_lines(list[i].get<std::string>()))
      TRY(reader.add_line(part.text, {.file = file, .line = line}, "", Role::packages));
  }
  let_pip_win(declaration, std::move(from_pip.packages));
  std::ranges::move(from_pip.constraints, std::back_inserter(declaration.constraints));
  std::ranges::move(from_pip.notes, std::back_inserter(declaration.notes));
  std::ranges::move(from_pip.sources, std::back_inserter(declaration.sources));
  if (from_pip.python) declaration.python = from_pip.python;
  declaration.indexes = std::move(from_pip.indexes);
  return {};
}

}  // namespace

Result<Declaration> read_conda_file(const Folder& folder, const std::string& file) {
  const TableFile table = TRY(folder.read_yaml(file));
  Declaration declaration{.declared_by = DeclaredBy::conda, .file = table.file};
  const Json& dependencies = base::member(table.document.root, "dependencies");
  if (!dependencies.is_array()) return declaration;
  declaration.sources.push_back({.file = table.file, .sha256 = table.sha256});
  CondaCollector collector(declaration, table.file);
  std::vector<std::size_t> pip_lists;
  for (std::size_t i = 0; i < dependencies.size(); ++i) {
    if (dependencies[i].is_string())
      TRY(collector.add(dependencies[i].get<std::string>(),
                        table.document.line_of(fmt::format("/dependencies/{}", i))));
    if (base::member(dependencies[i], "pip").is_array()) pip_lists.push_back(i);
  }
  collector.finish();
  for (const std::size_t i : pip_lists)
    TRY(add_pip_list(folder, declaration, dependencies[i]["pip"], table.document,
                     fmt::format("/dependencies/{}/pip", i), table.file));
  return declaration;
}

Reading read_conda(const Folder& folder) {
  auto [taken, others] = TRY(
      first_that_declares(candidates(folder), [&](const std::string& name) { return read_conda_file(folder, name); }));
  if (taken && !others.empty())
    taken->note({.file = taken->file}, fmt::format("{} {} not read; `-r FILE` chooses", enumerated(others),
                                                   others.size() == 1 ? "is" : "are"));
  return std::move(taken);
}

}  // namespace startrail::project
