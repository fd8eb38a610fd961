#include "project/own_code.hpp"

#include <algorithm>

#include "project/table_values.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

// `written` decides where it is there; uv knows `false` and `true` only.
bool is_off(const TableValue& written) {
  return written.json().is_boolean() && !written.json().get<bool>();
}
bool is_on(const TableValue& written) {
  return written.json().is_boolean() && written.json().get<bool>();
}

bool is_project_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return is_alphanumeric(c) || is_one_of(c, "-_."); });
}

bool has_python(const Folder& folder, const std::string& place) {
  return folder.has_directory(place) &&
         std::ranges::any_of(folder.names_in(place), [](const std::string& name) { return name.ends_with(".py"); });
}

// pyproject.toml and setup.cfg often hold nothing but the settings of linters.
bool is_meant_as_package(const Folder& folder) {
  if (folder.has_file("setup.py")) return true;
  if (folder.has_file("setup.cfg"))
    if (const auto text = folder.read_text("setup.cfg"); text && text->text.find("[metadata]") != std::string::npos)
      return true;
  if (!folder.has_file("pyproject.toml")) return false;
  const auto file = folder.read_toml("pyproject.toml");
  if (!file) return false;
  const TableValue root(*file);
  return root.at("project").is_table() || root.at({"tool", "poetry"}).is_table();
}

}  // namespace

std::optional<Fact<std::string>> own_package(const Folder& folder) {
  if (!folder.has_file("pyproject.toml")) return std::nullopt;
  const auto file = folder.read_toml("pyproject.toml");
  if (!file) return std::nullopt;
  const TableValue root(*file);
  const TableValue wish = root.at({"tool", "uv", "package"});
  const bool installed = root.at("build-system").is_table() || is_on(wish);
  if (!installed || is_off(wish) || is_off(root.at({"tool", "poetry", "package-mode"}))) return std::nullopt;
  for (const TableValue& name : {root.at({"project", "name"}), root.at({"tool", "poetry", "name"})})
    if (is_project_name(name.text())) return Fact<std::string>{normalized_name(name.text()), name.origin()};
  return std::nullopt;
}

std::vector<std::string> import_roots(const Folder& folder) {
  const bool declared =
      folder.has_file("pyproject.toml") || folder.has_file("setup.py") || folder.has_file("setup.cfg");
  if (declared && folder.has_directory("src") && !folder.has_file("src/__init__.py"))
    for (const std::string& name : folder.names_in("src"))
      if (has_python(folder, "src/" + name)) return {"src"};
  if (!is_meant_as_package(folder)) return {};
  for (const std::string& name : folder.names())
    if (folder.has_file(name + "/__init__.py")) return {"."};
  return {};
}

}  // namespace startrail::project
