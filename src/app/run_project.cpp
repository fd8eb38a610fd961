#include "app/run_project.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "app/circumstances.hpp"
#include "app/registry_images.hpp"
#include "base/files.hpp"
#include "image/oci/names.hpp"
#include "image/registry/reference.hpp"

namespace startrail::app {
namespace {

// Everything that a run's environment comes from, whichever way it was named.
struct Environment {
  std::optional<image::Image> image;
  std::string lock_toml, lock_digest;
  Json in_words;
};

// A script of the folder for the hint, so that it can be taken as it is.
std::string likely_script(const fs::path& folder) {
  std::error_code ignored;
  for (const char* usual : {"train.py", "main.py", "run.py"})
    if (fs::exists(folder / usual, ignored)) return usual;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".py") return entry.path().filename().string();
  return "train.py";
}

Error no_command(const fs::path& folder) {
  const std::string command = "python " + base::shell_quote(likely_script(folder));
  return base::error(ErrorCode::invalid_input, "there is no command to run, and the project doesn't name one")
      .with_hint("say it after `--`: trail run -- " + command)
      .with_hint(fmt::format("or keep it in trail.toml: [run] command = \"{}\"", command));
}

Result<sandbox::Support> isolation_support(const machine::Machine& machine, Isolation isolation, Reporter& reporter) {
  if (isolation == Isolation::automatic) return sandbox::probe(machine);
  reporter.warn(
      "--isolation none: the command runs on this machine itself, with your rights and without limits by the kernel");
  return sandbox::Support{.mode = sandbox::Mode::none,
                          .limits_by = "no isolation (--isolation none): the supervisor watches memory"};
}

std::string_view mode_name(sandbox::Mode mode) {
  switch (mode) {
    case sandbox::Mode::root: return "root";
    case sandbox::Mode::rootless: return "rootless";
    case sandbox::Mode::none: return "none";
  }
  return "none";
}

sandbox::Limits limits_of(const RunRequest& request, const project::Settings& settings) {
  sandbox::Limits limits;
  limits.memory = request.memory ? request.memory : settings.memory;
  limits.cpus = request.cpus ? request.cpus : settings.cpus;
  limits.pids = request.pids ? request.pids : settings.pids;
  limits.shm_size = request.shm_size.value_or(settings.shm_size.value_or(Bytes{0}));
  return limits;
}

GpuRequest gpus_of(const RunRequest& request, const project::Settings& settings, project::Build build) {
  if (request.gpus) return *request.gpus;
  if (build == project::Build::cpu || settings.gpus == 0) return {.kind = GpuRequest::Kind::none};
  if (settings.gpus) return {.kind = GpuRequest::Kind::count, .count = *settings.gpus};
  return {};
}

Result<run::RunSpec> spec_of(const Installation& installation, const RunRequest& request,
                             const project::Requirements& needs, project::Build build,
                             const machine::Machine& machine) {
  run::RunSpec spec;
  spec.command = request.command;
  if (spec.command.empty() && needs.command) spec.command = needs.command->value;
  if (spec.command.empty()) return fail(no_command(needs.folder));
  spec.workspace = needs.folder;
  spec.workspace_place = TRY(sandbox::place_of(needs.folder));
  spec.limits = limits_of(request, needs.settings);
  spec.network = request.network;
  spec.extra_mounts = request.mounts;
  spec.environment = request.environment;
  for (const auto& [name, value] : needs.settings.environment) spec.environment.emplace(name, value);
  const GpuRequest gpus = gpus_of(request, needs.settings, build);
  spec.gpus = TRY(pick_gpus(gpus, machine, installation.host));
  spec.gpus_requested_all = gpus.kind == GpuRequest::Kind::all;
  spec.stop_grace_seconds =
      request.grace_seconds.value_or(needs.settings.stop_grace_seconds.value_or(spec.stop_grace_seconds));
  return spec;
}

// The image that a registry calls so, which is pulled when it isn't here: what `docker run` does.
Result<std::string> image_of_registry(const Installation& installation, const std::string& name, Reporter& reporter) {
  const auto reference = TRY(image::parse_reference(name));
  if (auto named = image::id_of_name(image::Store::at(installation.paths.store()), reference.text())) return *named;
  return TRY(pull_image(installation, {.reference = name}, reporter)).image.id;
}

// "torch:2.6" among the images that are here; the newest one that fits.
Result<std::string> image_by_name(const Installation& installation, const std::string& name, Reporter& reporter) {
  const fs::path store = installation.paths.store();
  if (auto named = image::id_of_name(image::Store::at(store), name)) return std::move(*named);
  if (image::names_a_registry(name)) return image_of_registry(installation, name, reporter);
  const auto colon = name.find(':');
  if (colon == std::string::npos || name.starts_with("sha256:")) return name;
  std::string framework = project::normalized_name(name.substr(0, colon));
  if (framework == "pytorch") framework = "torch";
  const std::string version = name.substr(colon + 1);
  for (const auto& summary : TRY(image::list(store))) {
    const bool same_series =
        summary.framework_version == version || summary.framework_version.starts_with(version + ".");
    if (summary.framework == framework && same_series) return summary.id;
  }
  const bool is_framework = framework == "torch" || framework == "tensorflow" || framework == "jax";
  const std::string way_out =
      is_framework
          ? fmt::format("or let it be made for the project: trail run --framework {}=={}.*", framework, version)
          : fmt::format("or take the one that Docker Hub calls so: --image docker://{}", name);
  return fail(base::error(ErrorCode::not_found, fmt::format("there is no image {} here", name))
                  .with_hint("see those that are here: trail image list")
                  .with_hint(way_out));
}

Result<Environment> named_image(const Installation& installation, const std::string& name, Reporter& reporter) {
  const fs::path store = installation.paths.store();
  const std::string id = TRY(image_by_name(installation, name, reporter));
  Environment found{.image = TRY(image::open(store, id))};
  const Json told = TRY(image::inspect(store, found.image->id));
  found.lock_toml = base::string_at(told, "lock");
  found.lock_digest = base::string_at(told, "lock_digest");
  found.in_words = Json{{"python", found.image->python},
                        {"framework", base::member(told, "framework")},
                        {"framework_version", base::member(told, "framework_version")}};
  return found;
}

void show_plan(const image::Plan& plan, Reporter& reporter) {
  if (plan.wheels_missing == 0 && plan.builds == 0 && !plan.base_missing) return;
  std::string what = fmt::format("{} of {} wheels to download ({})", plan.wheels_missing, plan.wheels_total,
                                 base::to_text(plan.download));
  if (plan.builds > 0) what += fmt::format(", {} to build", plan.builds);
  if (plan.base_missing) what += ", a Debian base to make";
  reporter.note(fmt::format("{}; needs {} of disk, {} free", what, base::to_text(plan.disk_needed),
                            base::to_text(plan.disk_free)));
}

bool is_all_here(const image::Plan& plan) {
  return plan.wheels_missing == 0 && plan.builds == 0 && !plan.base_missing;
}

struct Journey {
  const Installation& installation;
  const RunRequest& request;
  Phases& phases;
  Reporter& reporter;
  machine::Machine machine;
  sandbox::Support support;
  project::Requirements needs;
  project::Build build = project::Build::gpu;
  run::RunSpec spec;
  Environment environment;
  std::optional<FolderState> folder;
  base::Fd store_in_use;

  void begin_snapshot() {
    if (!folder && request.snapshot == TakeSnapshot::yes) folder.emplace(needs.folder, installation.paths.snapshots());
  }

  Result<void> take_named_image() {
    needs = TRY(read_settings_only());
    spec = TRY(spec_of(installation, request, needs, build, machine));
    environment = TRY(named_image(installation, *request.image, reporter));
    begin_snapshot();
    phases.end("opening the image");
    return {};
  }

  // A folder whose requirements can't be read still runs in an image that was named; its settings are taken if they can
  // be.
  Result<project::Requirements> read_settings_only() {
    LockRequest asked = request.project;
    asked.folder = TRY(project_folder(asked.folder));
    project::Requirements bare{.folder = asked.folder};
    if (project::needs_module_map(asked.folder)) return bare;
    auto read = project::read(asked.folder, {});
    if (!read) return bare;
    return std::move(*read);
  }

  // Known from the folder alone, and so before anything is resolved.
  Result<void> check_command() {
    if (!request.command.empty() || needs.command) return {};
    return fail(no_command(needs.folder));
  }

  Result<void> lock_and_ensure() {
    if (request.command.empty()) {
      needs = TRY(read_project(installation, request.project, reporter));
      TRY(check_command());
    }
    auto locked = TRY(lock_project(installation, machine, request.project, phases, reporter));
    needs = std::move(locked.needs);
    build = locked.lock.build;
    spec = TRY(spec_of(installation, request, needs, build, machine));
    if (request.command.empty() && needs.command)
      reporter.note(
          fmt::format("running `{}` ({})", fmt::join(spec.command, " "), project::to_text(needs.command->origin)));
    const auto plan = TRY(image::plan(locked.lock, installation.paths.store(), locked.folder));
    show_plan(plan, reporter);
    if (build == project::Build::gpu && !locked.lock.cuda.empty() && !machine.driver && plan.wheels_missing > 0)
      reporter.note(
          "no NVIDIA driver is here: the GPU build runs on the CPU too; --cpu takes a smaller build for CPUs only");
    phases.end("planning");
    // While gigabytes arrive the code may still change: then the snapshot waits until the start is near.
    if (is_all_here(plan)) begin_snapshot();
    environment.image = TRY(image::ensure(
        locked.lock, machine, {.store = installation.paths.store(), .lock_directory = locked.folder}, reporter));
    begin_snapshot();
    environment.lock_toml = lock::to_toml(locked.lock);
    environment.lock_digest = lock::digest(locked.lock);
    environment.in_words = image_in_words(locked.lock);
    phases.end("the image");
    return {};
  }

  Result<void> prepare_environment() {
    // Without isolation a folder that declares nothing gets the machine as it is.
    if (support.mode == sandbox::Mode::none && !request.image) {
      needs = TRY(read_settings_only());
      begin_snapshot();
      spec = TRY(spec_of(installation, request, needs, build, machine));
      if (needs.declared_by == project::DeclaredBy::nothing) return {};
    }
    store_in_use = TRY(use_store(installation, reporter));
    return request.image ? take_named_image() : lock_and_ensure();
  }

  // Said at once, so that nobody finds out when repeating the run.
  void tell_omitted(const std::vector<std::string>& omitted) {
    constexpr std::size_t k_named = 3;
    if (omitted.empty()) return;
    std::string text = "not in the code's snapshot: ";
    for (std::size_t i = 0; i < std::min(k_named, omitted.size()); ++i) text += (i == 0 ? "" : ", ") + omitted[i];
    if (omitted.size() > k_named) text += fmt::format(" and {} more", omitted.size() - k_named);
    reporter.note(text);
  }

  void add_folder_state(run::RunSpec& spec, run::Circumstances& circumstances) {
    if (!folder) return;
    auto found = folder->wait();
    circumstances.git = std::move(found.git);
    if (found.snapshot) {
      spec.snapshot = found.snapshot->id;
      tell_omitted(found.snapshot->omitted);
    } else {
      circumstances.notes.push_back(fmt::format("no snapshot of the code: {}", found.problem));
      reporter.warn(fmt::format(
          "the code's snapshot could not be taken, so this run can't be repeated from its record: {}", found.problem));
    }
    phases.beside("the code's snapshot", found.took);
  }

  Result<PreparedRun> prepared() {
    PreparedRun run{.spec = std::move(spec)};
    run.spec.isolation = mode_name(support.mode);
    run.spec.image_id = environment.image ? environment.image->id : "";
    run.spec.lock_toml = environment.lock_toml;
    run.spec.lock_digest = environment.lock_digest;
    run.circumstances = circumstances_of(installation, machine, run.spec, support);
    run.circumstances.image = environment.in_words;
    add_folder_state(run.spec, run.circumstances);
    run.image = std::move(environment.image);
    run.store_in_use = std::move(store_in_use);
    phases.end("waiting for the snapshot");
    return run;
  }
};

}  // namespace

Result<image::Image> ensure_image(const Installation& installation, const lock::Lock& lock,
                                  const fs::path& lock_directory, const machine::Machine& machine, Reporter& reporter) {
  show_plan(TRY(image::plan(lock, installation.paths.store(), lock_directory)), reporter);
  return image::ensure(lock, machine, {.store = installation.paths.store(), .lock_directory = lock_directory},
                       reporter);
}

Result<PreparedRun> prepare_run(const Installation& installation, const RunRequest& request, Phases& phases,
                                Reporter& reporter) {
  Journey journey{installation, request, phases, reporter};
  TRY(prepare_state(installation));
  journey.machine = machine::survey(installation.host, installation.paths.root, machine::Depth::quick);
  phases.end("looking at the machine");
  journey.support = TRY(isolation_support(journey.machine, request.isolation, reporter));
  phases.end("looking for isolation");
  TRY(journey.prepare_environment());
  return journey.prepared();
}

}  // namespace startrail::app
