// Requirements that are paths: what stands there, and what to say when nothing does.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "project/requirements_file.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

bool is_buildable(const std::filesystem::path& directory) {
  std::error_code ignored;
  for (const char* file : {"pyproject.toml", "setup.py", "setup.cfg"})
    if (std::filesystem::exists(directory / file, ignored)) return true;
  return false;
}

// Where conda builds its packages: `pip freeze` in a conda environment writes these paths, which exist on the build
// farm only.
bool is_conda_build_path(std::string_view path) {
  for (const std::string_view mark : {"/tmp/build/", "/croot/", "/feedstock_root/", "/conda-bld/", "/opt/concourse/",
                                      "/C:/ci", "/C:/b/", "_work/work", "/work_1"})
    if (path.find(mark) != std::string_view::npos) return true;
  return false;
}

}  // namespace

Result<bool> check_path(const Folder& folder, Declaration& declaration, Requirement& requirement) {
  const bool local_archive =
      requirement.kind == SourceKind::archive && requirement.location.find("://") == std::string::npos;
  if (requirement.kind != SourceKind::directory && !local_archive) return true;
  const std::filesystem::path path = (folder.root() / requirement.location).lexically_normal();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (is_conda_build_path(requirement.location) && !requirement.name.empty()) {
      declaration.note(requirement.origin,
                       fmt::format("{}: the path is one of conda's build machines; any version of {} is taken",
                                   requirement.as_written, requirement.name));
      requirement.kind = SourceKind::index;
      requirement.location.clear();
      return true;
    }
    return fail(error(ErrorCode::not_found, fmt::format("{}: `{}`: there is no {} here", to_text(requirement.origin),
                                                        requirement.as_written, requirement.location))
                    .with_hint(requirement.name.empty()
                                   ? "put it there, or remove the line"
                                   : fmt::format("write {}, with ==VERSION if it matters", requirement.name)));
  }
  if (local_archive || is_buildable(path)) return true;
  if (std::filesystem::equivalent(path, folder.root(), ignored)) {
    declaration.note(requirement.origin,
                     fmt::format("{}: this folder has no pyproject.toml, setup.py or setup.cfg, so there is nothing "
                                 "to install; its code is used where it is",
                                 requirement.as_written));
    return false;
  }
  return fail(error(ErrorCode::invalid_input,
                    fmt::format("{}: `{}`: {} has no pyproject.toml, setup.py or setup.cfg",
                                to_text(requirement.origin), requirement.as_written, requirement.location))
                  .with_hint("remove the line, or make the folder a package"));
}

}  // namespace startrail::project
