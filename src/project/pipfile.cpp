// Pipenv's Pipfile.
#include <fmt/format.h>

#include "project/declaration.hpp"
#include "project/marker.hpp"
#include "project/pyproject.hpp"
#include "project/requirements_file.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

std::map<std::string, std::string> add_sources(Declaration& declaration, const TableValue& sources) {
  std::map<std::string, std::string> by_name;
  for (std::size_t i = 0; sources.is_list() && i < sources.size(); ++i) {
    const TableValue source = sources.at(i);
    const Fact<std::string> url{with_variables(source.at("url").text()), source.at("url").origin()};
    if (url.value.empty()) continue;
    by_name[source.at("name").text()] = url.value;
    if (i == 0) {
      declaration.indexes.index_url = url;  // Pipenv: the first source is the default one
    } else {
      declaration.indexes.extra_index_urls.push_back(url);
    }
  }
  return by_name;
}

Result<Requirement> requirement_of(const std::string& name, const TableValue& value) {
  const std::string version = value.is_table() ? value.at("version").text() : value.text();
  Requirement requirement{.name = normalized_name(name), .origin = value.origin()};
  requirement.as_written = fmt::format("{} = \"{}\"", name, version);
  if (!version.empty() && version != "*") {
    auto specifier = poetry_specifier(version);  // a bare "1.2" means ==1.2 here too
    if (!specifier) {
      Error reason = std::move(specifier).error();
      reason.message = fmt::format("{}: {}: {}", to_text(value.origin()), requirement.as_written, reason.message);
      return fail(std::move(reason));
    }
    requirement.specifier = *specifier;
  }
  for (const auto& extra : value.at("extras").texts()) requirement.extras.push_back(normalized_name(extra.value));
  requirement.marker = value.at("markers").text();
  for (const char* variable : {"sys_platform", "python_version", "platform_machine", "platform_system", "os_name"})
    if (const std::string condition = value.at(variable).text(); !condition.empty())
      requirement.marker += (requirement.marker.empty() ? "" : " and ") + fmt::format("{} {}", variable, condition);
  if (auto marker = Marker::parse(requirement.marker); !marker) {
    Error reason = std::move(marker).error();
    reason.message = fmt::format("{}: {}", to_text(value.origin()), reason.message);
    return fail(std::move(reason));
  }
  take_location(requirement, value);
  return requirement;
}

}  // namespace

Reading read_pipfile(const Folder& folder) {
  if (!folder.has_file("Pipfile")) return std::nullopt;
  const TableFile file = TRY(folder.read_toml("Pipfile"));
  const TableValue root(file);
  Declaration declaration{.declared_by = DeclaredBy::pipfile, .file = file.file};
  declaration.sources.push_back({.file = file.file, .sha256 = file.sha256});
  const auto sources = add_sources(declaration, root.at("source"));
  const TableValue packages = root.at("packages");
  for (const std::string& name : packages.keys()) {
    Requirement requirement = TRY(requirement_of(name, packages.at(name)));
    if (const auto index = sources.find(packages.at(name).at("index").text()); index != sources.end())
      declaration.indexes.package_index[requirement.name] = index->second;
    if (take_interpreter(declaration, requirement)) continue;
    if (TRY(check_path(folder, declaration, requirement))) declaration.packages.push_back(std::move(requirement));
  }
  for (const char* key : {"python_version", "python_full_version"}) {
    const TableValue python = root.at({"requires", key});
    if (!python.is_text()) continue;
    if (auto specifier = python_specifier(python.text()); specifier && !specifier->empty())
      declaration.python = Fact<std::string>{*specifier, python.origin()};
  }
  if (!root.at("dev-packages").keys().empty())
    declaration.note(root.at("dev-packages").origin(), "dev-packages are not taken");
  if (folder.has_file("Pipfile.lock"))
    declaration.note({.file = "Pipfile.lock"}, "this lock is not read: versions are resolved from Pipfile");
  return declaration;
}

}  // namespace startrail::project
