#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "lock/lock.hpp"
#include "lock/locked_answer.hpp"
#include "lock/project_copy.hpp"

namespace startrail::lock {
namespace {

// The first file whose content differs from what the lock was made from.
std::optional<std::string> changed_input(const Lock& lock, const project::Requirements& needs) {
  for (const auto& source : needs.sources) {
    const auto before = std::ranges::find(lock.inputs, source.file, &project::SourceFile::file);
    if (before == lock.inputs.end()) return source.file + " is new";
    if (before->sha256 != source.sha256) return source.file + " changed";
  }
  for (const auto& before : lock.inputs)
    if (std::ranges::find(needs.sources, before.file, &project::SourceFile::file) == needs.sources.end())
      return before.file + " is gone";
  return std::nullopt;
}

// A folder that is built into the image is locked by its content, an editable by its metadata; one that can't be read
// any more has changed too.
std::optional<std::string> changed_folder(const Lock& lock, const project::Requirements& needs) {
  for (const auto& package : lock.packages) {
    if (package.kind != PackageKind::directory || package.artifact.sha256.empty()) continue;
    const bool editable = package.editable == project::Editable::yes;
    const fs::path folder = needs.folder / package.directory;
    const auto digest = editable ? metadata_digest(folder) : tree_digest(folder);
    if (digest && *digest == package.artifact.sha256) continue;
    return editable
               ? fmt::format("what {} needs changed", package.directory == "." ? "this package" : package.directory)
               : fmt::format("the folder {} changed", package.directory);
  }
  return std::nullopt;
}

// Requirements that stand for a file's whole content rather than for what was read of it.
bool needs_whole_files(const project::Requirements& needs) {
  return needs.existing_lock.has_value() || std::ranges::any_of(needs.packages, [](const auto& package) {
           return package.kind == project::SourceKind::directory;
         });
}

}  // namespace

std::optional<std::string> out_of_date(const Lock& lock, const project::Requirements& needs,
                                       const catalog::ChooseOptions& options) {
  const auto build = options.build.value_or(needs.settings.build.value_or(project::Build::gpu));
  if (build != lock.build)
    return fmt::format("it is for the {} build", lock.build == project::Build::cpu ? "CPU" : "GPU");
  if (options.python && *options.python != lock.python) return fmt::format("it is for Python {}", lock.python);
  const auto changed = changed_input(lock, needs);
  // Comments and order may change; what was read of the files decides.
  if (settings_digest(needs) != lock.settings_digest) return changed.value_or("what the project needs changed");
  if (changed && needs_whole_files(needs)) return changed;
  return changed_folder(lock, needs);
}

}  // namespace startrail::lock
