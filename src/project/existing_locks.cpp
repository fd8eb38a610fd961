// Locks that other tools left: PEP 751's pylock.toml, and uv.lock.
#include <fmt/format.h>

#include <algorithm>

#include "project/declaration.hpp"
#include "project/marker.hpp"
#include "project/table_values.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

// Ours: what `trail lock` writes, never what it starts from.
constexpr std::string_view k_own_lock = "pylock.trail.toml";

bool is_pylock_name(std::string_view name) {
  return name == "pylock.toml" || (name.starts_with("pylock.") && name.ends_with(".toml") && name != k_own_lock);
}

void add_pins(Declaration& declaration, const TableValue& packages) {
  for (std::size_t i = 0; packages.is_list() && i < packages.size(); ++i) {
    const TableValue package = packages.at(i);
    const std::string version = package.at("version").text();
    if (!package.at("name").is_text() || version.empty()) continue;
    // uv.lock lists the project itself too.
    if (package.at({"source", "virtual"}).present() || package.at({"source", "editable"}).present()) continue;
    Requirement requirement{.name = normalized_name(package.at("name").text()),
                            .specifier = "==" + version,
                            .marker = package.at("marker").text(),
                            .origin = package.at("name").origin()};
    requirement.as_written = fmt::format("{}=={}", requirement.name, version);
    if (SpecifierSet::parse(requirement.specifier) && Marker::parse(requirement.marker))
      declaration.packages.push_back(std::move(requirement));
  }
}

Result<Declaration> read_lock_file(const Folder& folder, const std::string& name, std::string_view packages_key,
                                   DeclaredBy by) {
  const TableFile file = TRY(folder.read_toml(name));
  const TableValue root(file);
  Declaration declaration{.declared_by = by, .file = file.file};
  declaration.sources.push_back({.file = file.file, .sha256 = file.sha256});
  declaration.existing_lock = Fact<std::string>{file.file, {.file = file.file}};
  if (const TableValue python = root.at("requires-python"); python.is_text())
    if (auto specifier = SpecifierSet::parse(python.text()); specifier && !specifier->text().empty())
      declaration.python = Fact<std::string>{specifier->text(), python.origin()};
  add_pins(declaration, root.at(packages_key));
  return declaration;
}

}  // namespace

Result<Declaration> read_pylock_file(const Folder& folder, const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  if (name == "uv.lock") return read_lock_file(folder, file, "package", DeclaredBy::uv_lock);
  return read_lock_file(folder, file, "packages", DeclaredBy::pylock);
}

Reading read_pylock(const Folder& folder) {
  std::vector<std::string> names;
  std::ranges::copy_if(folder.names(), std::back_inserter(names),
                       [&](const std::string& name) { return is_pylock_name(name) && folder.has_file(name); });
  std::ranges::stable_partition(names, [](const std::string& name) { return name == "pylock.toml"; });
  if (names.empty()) return std::nullopt;
  Declaration declaration = TRY(read_pylock_file(folder, names.front()));
  if (names.size() > 1) {
    const std::vector<std::string> others(names.begin() + 1, names.end());
    declaration.note({.file = names.front()}, fmt::format("{} {} not read; `-r FILE` chooses", enumerated(others),
                                                          others.size() == 1 ? "is" : "are"));
  }
  return declaration;
}

Reading read_uv_lock(const Folder& folder) {
  if (!folder.has_file("uv.lock")) return std::nullopt;
  return TRY(read_pylock_file(folder, "uv.lock"));
}

}  // namespace startrail::project
