// {git = …}, {path = …} and {url = …}, as the tables of uv, Poetry and Pipenv say where a package comes from.
#include <fmt/format.h>

#include "project/pyproject.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

bool is_true(const TableValue& value) {
  return value.json().is_boolean() && value.json().get<bool>();
}

std::string git_location(const TableValue& table) {
  std::string location = table.at("git").text();
  if (!location.starts_with("git+")) {
    const std::size_t colon = location.find(':');
    const bool scp = location.find("://") == std::string::npos && colon != std::string::npos;
    if (scp) location[colon] = '/';
    location = (scp ? "git+ssh://" : "git+") + location;
  }
  for (const char* key : {"rev", "tag", "branch", "ref"})
    if (table.at(key).is_text()) {
      location += "@" + table.at(key).text();
      break;
    }
  if (table.at("subdirectory").is_text()) location += "#subdirectory=" + table.at("subdirectory").text();
  return location;
}

}  // namespace

void take_location(Requirement& requirement, const TableValue& table) {
  const std::string url = table.at("url").is_text() ? table.at("url").text() : table.at("file").text();
  std::string path = table.at("path").text();
  if (table.at("git").is_text()) {
    requirement.kind = SourceKind::vcs;
    requirement.location = git_location(table);
  } else if (!url.empty()) {
    requirement.kind = SourceKind::archive;
    requirement.location = url;
  } else if (!path.empty()) {
    const bool archive = path.ends_with(".whl") || path.ends_with(".tar.gz") || path.ends_with(".zip");
    requirement.kind = archive ? SourceKind::archive : SourceKind::directory;
    if (!path.starts_with('/') && !path.starts_with('.')) path = "./" + path;
    requirement.location = std::move(path);
  } else {
    return;
  }
  if (is_true(table.at("editable")) || is_true(table.at("develop"))) requirement.editable = Editable::yes;
}

}  // namespace startrail::project
