#include "lock/locked_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "lock/lock_text.hpp"
#include "lock/project_copy.hpp"
#include "lock/torch_build.hpp"
#include "lock/torch_source.hpp"

namespace startrail::lock {
namespace {

// Where `path`, as uv wrote it, lies relative to the project folder.
std::string relative_to_project(const std::string& path, const Answer& answer) {
  const fs::path absolute = fs::path(path).is_absolute() ? fs::path(path) : answer.written_in / path;
  const fs::path relative = absolute.lexically_normal().lexically_relative(answer.project);
  std::string text = (relative.empty() ? absolute : relative).generic_string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text.empty() ? "." : text;
}

bool leaves_project(const std::string& path) {
  return path.starts_with("..") || path.starts_with('/');
}

Result<void> settle_directory(LockedPackage& package, const Answer& answer, const project::Requirements& needs,
                              const Request& request) {
  package.directory = relative_to_project(package.directory, answer);
  if (request.editable(package.directory) == project::Editable::yes) package.editable = project::Editable::yes;
  if (package.editable == project::Editable::yes) {
    if (!leaves_project(package.directory)) {
      package.artifact.sha256 = TRY(metadata_digest(needs.folder / package.directory));
      return {};
    }
    Error reason =
        base::error(ErrorCode::refused,
                    fmt::format("{} is editable but lies outside of the project folder, which is all that a run sees",
                                package.directory));
    reason.context = request.origins(package.name);
    return fail(std::move(reason).with_hint("move it into the project, or drop -e to have it built in"));
  }
  package.artifact.sha256 = TRY(tree_digest(needs.folder / package.directory));
  return {};
}

Result<void> check_hashes(const LockedPackage& package, const Request& request) {
  const auto* requirement = request.find(package.name);
  if (requirement == nullptr || requirement->hashes.empty() || package.artifact.sha256.empty()) return {};
  const std::string own = "sha256:" + package.artifact.sha256;
  if (std::ranges::find(requirement->hashes, own) != requirement->hashes.end()) return {};
  Error reason = base::error(ErrorCode::hash_mismatch,
                             fmt::format("{} is none of the files that --hash allows", package.artifact.filename));
  reason.context = request.origins(package.name);
  return fail(std::move(reason).with_hint("add --hash=" + own + " to that line, or remove its hashes"));
}

void take_framework(Lock& lock) {
  for (const std::string name : {"torch", "tensorflow", "jax"}) {
    const auto found = std::ranges::find(lock.packages, name, &LockedPackage::name);
    if (found == lock.packages.end()) continue;
    lock.framework = name;
    lock.framework_version = found->version;
    return;
  }
}

// The version of a library that wheels bring under several names ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13").
std::string locked_version(const Lock& lock, std::string_view prefix) {
  for (const auto& package : lock.packages)
    if (package.name == prefix || package.name.starts_with(std::string(prefix) + "-cu")) return package.version;
  return "";
}

bool has_gpu_wheels(const Lock& lock, const catalog::Combination& row) {
  return !row.gpu_wheels.empty() && std::ranges::all_of(row.gpu_wheels, [&](const std::string& wheel) {
    const std::string name = wheel.substr(0, wheel.find_first_of("=<>!~ "));
    return std::ranges::find(lock.packages, name, &LockedPackage::name) != lock.packages.end();
  });
}

// Locked wheels know best; the catalog knows what older wheels carry inside.
void take_libraries(Lock& lock) {
  const auto* row = lock.framework.empty() ? nullptr : catalog::find(lock.framework, lock.framework_version);
  if (row != nullptr) {
    lock.driver_floor = row->driver_floor;
    lock.architectures = row->architectures;
    lock.cuda = row->cuda;
    lock.cudnn = row->cudnn;
    lock.nccl = row->nccl;
  }
  lock.environment.clear();
  if (lock.build == project::Build::cpu) {
    lock.cuda = lock.cudnn = lock.nccl = lock.driver_floor = "";
    lock.architectures.clear();
    return;
  }
  if (row != nullptr && has_gpu_wheels(lock, *row)) lock.environment = row->environment;
  if (const auto version = locked_version(lock, "nvidia-cuda-runtime"); !version.empty() && lock.cuda.empty())
    lock.cuda = version;
  if (const auto version = locked_version(lock, "nvidia-cudnn"); !version.empty()) lock.cudnn = version;
  if (const auto version = locked_version(lock, "nvidia-nccl"); !version.empty()) lock.nccl = version;
}

// Known by name, named by the project, learnt from a failed build, or told from the folder's own setup.py.
bool needs_torch(const LockedPackage& package, const Lock& lock, const project::Requirements& needs) {
  if (is_wheel(package) || package.editable == project::Editable::yes) return false;
  return is_built_with_torch(lock, package.name) || torch_package(package.name) != nullptr ||
         std::ranges::find(needs.settings.build_with_torch, package.name) != needs.settings.build_with_torch.end() ||
         (package.kind == PackageKind::directory && imports_torch(needs.folder / package.directory));
}

void take_torch_builds(Lock& lock, const project::Requirements& needs, const machine::Machine& machine) {
  std::vector<std::string> names;
  for (const auto& package : lock.packages)
    if (needs_torch(package, lock, needs)) names.push_back(package.name);
  std::ranges::sort(names);
  lock.built_with_torch = std::move(names);
  lock.build_architectures.clear();
  if (!lock.built_with_torch.empty() && !lock.cuda.empty())
    lock.build_architectures = build_architectures(machine, lock, needs.settings.build_architectures);
}

Json requirement_json(const project::Requirement& requirement) {
  return Json::array({to_pep508(requirement), requirement.hashes});
}

Json sorted(std::vector<Json> items) {
  std::ranges::sort(items, {}, [](const Json& item) { return base::to_compact_text(item); });
  return items;
}

Json values(const std::vector<project::Fact<std::string>>& facts) {
  Json list = Json::array();
  for (const auto& fact : facts) list.push_back(fact.value);
  return list;
}

}  // namespace

Result<Lock> lock_from(const Answer& answer, const catalog::PythonChoice& python, const project::Requirements& needs,
                       const Request& request) {
  Lock lock = TRY(parse_lock(answer.lock_text.value_or(""), "uv's answer", python.minor));
  for (auto& package : lock.packages) {
    if (package.kind == PackageKind::directory) TRY(settle_directory(package, answer, needs, request));
    if (!package.artifact.path.empty()) package.artifact.path = relative_to_project(package.artifact.path, answer);
    TRY(check_hashes(package, request));
  }
  return lock;
}

Result<void> complete(Lock& lock, const catalog::PythonChoice& python, const project::Requirements& needs,
                      const catalog::Choice& choice, const ResolveOptions& options, const machine::Machine& machine) {
  lock.python = python.minor;
  lock.suite = python.suite;
  lock.build = choice.build;
  lock.system_packages.clear();
  for (const auto& package : needs.system_packages) lock.system_packages.push_back(package.value);
  std::ranges::sort(lock.system_packages);
  lock.base_recipe = options.base.recipe_digest(python.suite, lock.system_packages);
  lock.inputs = needs.sources;
  std::ranges::sort(lock.inputs, {}, &project::SourceFile::file);
  lock.settings_digest = settings_digest(needs);
  if (!python.remark.empty()) lock.notes.push_back(python.remark);
  take_framework(lock);
  take_libraries(lock);
  take_torch_builds(lock, needs, machine);
  return {};
}

std::string settings_digest(const project::Requirements& needs) {
  std::vector<Json> packages;
  std::vector<Json> constraints;
  for (const auto& requirement : needs.packages) packages.push_back(requirement_json(requirement));
  for (const auto& requirement : needs.constraints) constraints.push_back(requirement_json(requirement));
  auto system_packages = needs.system_packages;
  std::ranges::sort(system_packages, {}, &project::Fact<std::string>::value);
  Json content{
      {"packages", sorted(std::move(packages))},
      {"constraints", sorted(std::move(constraints))},
      {"python", needs.python ? Json(needs.python->value) : Json()},
      {"cuda", needs.cuda ? Json(needs.cuda->value) : Json()},
      {"lock", needs.existing_lock ? Json(needs.existing_lock->value) : Json()},
      {"index", needs.indexes.index_url ? Json(needs.indexes.index_url->value) : Json()},
      {"extra-indexes", values(needs.indexes.extra_index_urls)},
      {"find-links", values(needs.indexes.find_links)},
      {"package-index", Json(needs.indexes.package_index)},
      {"no-index", needs.indexes.no_index.has_value()},
      {"prereleases", needs.indexes.prereleases.has_value()},
      {"system-packages", values(system_packages)},
  };
  // Said only where there is something to say, so that most locks of earlier versions stay true.
  if (!needs.settings.build_with_torch.empty()) content["build-with-torch"] = needs.settings.build_with_torch;
  if (!needs.settings.build_architectures.empty()) content["build-architectures"] = needs.settings.build_architectures;
  if (needs.own_package)
    content["own-package"] = {needs.own_package->value, metadata_digest(needs.folder).value_or("")};
  if (!needs.import_roots.empty()) content["import-roots"] = needs.import_roots;
  return base::sha256_hex(base::to_compact_text(content));
}

}  // namespace startrail::lock
