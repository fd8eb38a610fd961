#include "app/lock_project.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "image/base_provider.hpp"
#include "image/image.hpp"
#include "lock/torch_build.hpp"
#include "project/version.hpp"

namespace startrail::app {
namespace {

// A folder that can't be written has its lock here, one folder per project path.
fs::path lock_away_from_code(const Installation& installation, const fs::path& folder) {
  return installation.paths.root / "locks" / base::sha256_hex(folder.string()).substr(0, 16) / lock::k_lock_file_name;
}

fs::path lock_file_to_write(const Installation& installation, const fs::path& folder, Reporter& reporter) {
  if (::access(folder.c_str(), W_OK) == 0) return folder / lock::k_lock_file_name;
  fs::path away = lock_away_from_code(installation, folder);
  reporter.note(fmt::format("{} can't be written: its lock is kept as {}", folder.string(), away.string()));
  return away;
}

std::optional<fs::path> existing_lock_file(const Installation& installation, const fs::path& folder) {
  std::error_code ignored;
  for (fs::path file : {folder / lock::k_lock_file_name, lock_away_from_code(installation, folder)})
    if (fs::exists(file, ignored)) return file;
  return std::nullopt;
}

// What was asked for when the lock was made holds on until the user asks for something else: a flag left out
// means "as locked", so that `trail lock --cpu` and then `trail run` agree.
std::vector<catalog::ChooseOptions> acceptable_options(const lock::Lock& lock, const project::Requirements& needs,
                                                       const LockRequest& request) {
  std::vector<catalog::ChooseOptions> acceptable{request.choose};
  const bool may_take_build = !request.choose.build && !needs.settings.build;
  const bool may_take_python = !request.choose.python;
  if (may_take_build) acceptable.push_back({.build = lock.build, .python = request.choose.python});
  if (may_take_python) acceptable.push_back({.build = request.choose.build, .python = lock.python});
  if (may_take_build && may_take_python) acceptable.push_back({.build = lock.build, .python = lock.python});
  return acceptable;
}

// "torch==2.10.0" against the lock's framework; nullopt when it holds.
std::optional<std::string> other_framework(const lock::Lock& lock, const std::optional<std::string>& asked) {
  if (!asked) return std::nullopt;
  const auto end = asked->find_first_of("=<>!~ ");
  const std::string name = project::normalized_name(asked->substr(0, end));
  const std::string specifier = end == std::string::npos ? "" : asked->substr(end);
  const auto set = project::SpecifierSet::parse(specifier);
  const auto version = project::Version::parse(lock.framework_version);
  if (lock.framework == name && set && version && set->contains(*version)) return std::nullopt;
  return fmt::format("{} was asked for", *asked);
}

std::optional<std::string> why_not_reused(const lock::Lock& lock, const project::Requirements& needs,
                                          const LockRequest& request) {
  if (request.upgrade == Upgrade::yes) return "an upgrade was asked for";
  if (auto other = other_framework(lock, request.framework)) return other;
  std::optional<std::string> reason;
  for (const auto& options : acceptable_options(lock, needs, request)) {
    auto outdated = lock::out_of_date(lock, needs, options);
    if (!outdated) return std::nullopt;
    if (!reason) reason = std::move(outdated);
  }
  return reason;
}

// trail.toml's image = "pytorch:2.6" is a combination: its series bounds what resolving may take.
Result<std::string> framework_of_image(const project::Fact<std::string>& image) {
  const std::string place = fmt::format("read from {}", project::to_text(image.origin));
  if (catalog::is_name(image.value)) return TRY_CONTEXT(catalog::named(image.value), place).requirement;
  return fail(
      base::error(ErrorCode::unsupported, fmt::format("image `{}` is no combination of this catalog", image.value))
          .with_context(place)
          .with_hint("name one such as pytorch:2.6, or run in an image that is here: trail run --image ID"));
}

Result<void> check_on_machine(const lock::Lock& lock, const machine::Machine& machine, const fs::path& file) {
  if (lock.framework.empty() || lock.build == project::Build::cpu) return {};
  const auto* row = catalog::find(lock.framework, lock.framework_version);
  if (row == nullptr) return {};
  return catalog::check(*row, lock.framework_version, machine, file.filename().string());
}

// The lock that is there, if it can be used; a corrupt one is told and made anew, never trusted.
std::optional<lock::Lock> reusable_lock(const fs::path& file, const project::Requirements& needs,
                                        const machine::Machine& machine, const LockRequest& request,
                                        Reporter& reporter) {
  auto lock = lock::read_lock(file);
  if (!lock) {
    reporter.warn(fmt::format("{}; it is made anew", lock.error().message));
    return std::nullopt;
  }
  auto reason = why_not_reused(*lock, needs, request);
  if (!reason && needs.settings.build_architectures.empty()) reason = lock::compiled_for_others(*lock, machine);
  if (!reason) return std::move(*lock);
  reporter.note(fmt::format("{} is made anew: {}", file.filename().string(), *reason));
  return std::nullopt;
}

Result<void> save(const lock::Lock& lock, const fs::path& file) {
  TRY(base::make_directories(file.parent_path()));
  return lock::write_lock(lock, file);
}

}  // namespace

Result<fs::path> project_folder(const fs::path& folder) {
  std::error_code failed;
  const auto status = fs::status(folder, failed);
  if (!fs::exists(status)) {
    if (failed && failed.value() != ENOENT)
      return fail(base::errno_error(fmt::format("cannot read {}", folder.string()), failed.value()));
    return fail(base::error(ErrorCode::not_found, fmt::format("there is no folder {}", folder.string()))
                    .with_hint("give the folder that holds the training code, or run this inside it"));
  }
  if (!fs::is_directory(status))
    return fail(
        base::error(ErrorCode::invalid_input, fmt::format("{} is a file, not a folder", folder.string()))
            .with_hint(fmt::format("give its folder: {}",
                                   base::shell_quote(folder.has_parent_path() ? folder.parent_path().string() : "."))));
  if (::access(folder.c_str(), R_OK | X_OK) != 0)
    return fail(base::errno_error(fmt::format("cannot read the folder {}", folder.string()), errno)
                    .with_hint(fmt::format("allow it: chmod u+rx {}", base::shell_quote(folder.string()))));
  fs::path whole = fs::canonical(folder, failed);
  if (failed) return fail(base::errno_error(fmt::format("cannot find {}", folder.string()), failed.value()));
  return whole;
}

Result<project::Requirements> read_project(const Installation& installation, const LockRequest& request,
                                           Reporter& reporter) {
  const fs::path folder = TRY(project_folder(request.folder));
  project::ReadOptions options{.requirement_files = request.requirement_files};
  if (request.requirement_files.empty() && project::needs_module_map(folder)) {
    auto map = TRY(lock::ensure_module_map(installation.paths.root, reporter));
    options.module_map = std::move(map.mapping);
    options.standard_library_list = std::move(map.standard_library);
  }
  return project::read(folder, options);
}

Result<void> settle_framework(LockRequest& request, const project::Requirements& needs) {
  if (!request.framework && needs.settings.image) {
    request.framework = TRY(framework_of_image(*needs.settings.image));
    request.choose.framework_origin = project::to_text(needs.settings.image->origin);
  }
  request.choose.framework = request.framework;
  return {};
}

Result<LockedProject> lock_project(const Installation& installation, const machine::Machine& machine,
                                   const LockRequest& asked, Phases& phases, Reporter& reporter) {
  LockRequest request = asked;
  request.folder = TRY(project_folder(asked.folder));
  LockedProject locked{.folder = request.folder};
  locked.needs = TRY(read_project(installation, request, reporter));
  TRY(settle_framework(request, locked.needs));
  phases.end("reading the project");

  if (const auto file = existing_lock_file(installation, request.folder)) {
    std::error_code ignored;
    if (!fs::is_regular_file(*file, ignored))
      return fail(base::error(ErrorCode::invalid_input, fmt::format("{} is not a file", file->string()))
                      .with_hint("remove it; `trail lock` writes a new one"));
    if (auto lock = reusable_lock(*file, locked.needs, machine, request, reporter)) {
      TRY(check_on_machine(*lock, machine, *file));
      locked.lock = std::move(*lock);
      locked.file = *file;
      locked.reused = true;
      if (request.explain == Explain::yes)
        locked.steps = TRY(catalog::choose(locked.needs, machine, request.choose)).steps;
      phases.end("reading the lock");
      return locked;
    }
  }
  for (const auto& note : locked.needs.notes)
    reporter.note(fmt::format("{} ({})", note.value, project::to_text(note.origin)));
  auto choice = TRY(catalog::choose(locked.needs, machine, request.choose));
  locked.steps = choice.steps;
  phases.end("choosing a combination");
  const lock::ResolveOptions options{.base = image::base_provider(installation.paths.store(), machine),
                                     .state_root = installation.paths.root,
                                     .framework = request.framework,
                                     .framework_origin = request.choose.framework_origin,
                                     .upgrade = request.upgrade == Upgrade::yes};
  locked.lock = TRY(lock::resolve(locked.needs, choice, machine, options, reporter));
  for (const auto& note : locked.lock.notes) reporter.note(note);
  phases.end("resolving");
  locked.file = lock_file_to_write(installation, request.folder, reporter);
  TRY(check_on_machine(locked.lock, machine, locked.file));
  if (request.write == WriteLock::yes) TRY(save(locked.lock, locked.file));
  return locked;
}

}  // namespace startrail::app
