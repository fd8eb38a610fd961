#include "app/rerun.hpp"

#include <fmt/format.h>

#include "app/circumstances.hpp"
#include "app/list_runs.hpp"
#include "base/files.hpp"
#include "image/oci/pulled_image.hpp"

namespace startrail::app {
namespace {

struct Again {
  const Installation& installation;
  Phases& phases;
  Reporter& reporter;
  std::string old_id;
  run::RunSpec spec;
  Json record;
  machine::Machine machine;
  std::vector<std::string> notes;

  void say(std::string text) {
    reporter.note(text);
    notes.push_back(std::move(text));
  }

  // <state>/reruns/<id>.XXXXXX holds the restored code and the recorded lock.
  Result<fs::path> make_folder() { return base::make_temporary_directory(installation.paths.root / "reruns", old_id); }

  Result<void> restore_code(const fs::path& folder) {
    if (spec.snapshot.empty())
      return fail(base::error(ErrorCode::not_found, fmt::format("run {} has no snapshot of its code", old_id))
                      .with_hint(fmt::format("use the code as it is now: cd {} && trail rerun --here {}",
                                             base::shell_quote(spec.workspace.string()), old_id)));
    spec.workspace = folder / "workspace";
    spec.workspace_place = std::nullopt;
    TRY(base::make_directories(spec.workspace));
    TRY(run::restore_snapshot(installation.paths.snapshots(), spec.snapshot, spec.workspace));
    const Json manifest = TRY(run::snapshot_manifest(installation.paths.snapshots(), spec.snapshot));
    for (const auto& omitted : base::strings_at(manifest, "omitted"))
      say(fmt::format("not in the snapshot, and so not here: {}", omitted));
    return {};
  }

  // The caller's folder instead; returns its repository's state.
  Result<Json> take_present_code() {
    spec.workspace = TRY(project_folder("."));
    spec.workspace_place = TRY(sandbox::place_of(spec.workspace));
    auto found = FolderState(spec.workspace, installation.paths.snapshots()).wait();
    spec.snapshot = found.snapshot ? found.snapshot->id : "";
    return found.git;
  }

  Result<image::Image> image_from_lock(const fs::path& folder, Json& in_words) {
    const fs::path file = folder / lock::k_lock_file_name;
    TRY(base::write_file_atomic(file, spec.lock_toml));
    const auto lock = TRY_CONTEXT(lock::read_lock(file), fmt::format("the lock that run {} recorded", old_id));
    if (const auto* row = catalog::find(lock.framework, lock.framework_version);
        row != nullptr && lock.build == project::Build::gpu)
      TRY(catalog::check(*row, lock.framework_version, machine, fmt::format("the lock of run {}", old_id)));
    in_words = image_in_words(lock);
    return ensure_image(installation, lock, spec.workspace, machine, reporter);
  }

  Result<std::optional<image::Image>> find_image(const fs::path& folder, Json& in_words) {
    if (spec.image_id.empty()) return std::optional<image::Image>();
    const std::string recorded = spec.image_id;
    in_words = base::member(record, "image");
    // What came from elsewhere isn't made from its lock while it is here.
    const bool take_recorded =
        spec.lock_toml.empty() || image::is_pulled(image::Store::at(installation.paths.store()), recorded);
    auto image =
        take_recorded ? TRY(image::open(installation.paths.store(), recorded)) : TRY(image_from_lock(folder, in_words));
    if (image.id != recorded)
      say(fmt::format("the image made from the same lock differs from the recorded one ({}): the base has moved on",
                      recorded.substr(0, 19)));
    return std::optional(std::move(image));
  }

  Result<void> choose_gpus() {
    GpuRequest request{.kind = GpuRequest::Kind::count, .count = static_cast<int>(spec.gpus.size())};
    if (spec.gpus.empty()) request.kind = GpuRequest::Kind::none;
    spec.gpus = TRY(pick_gpus(request, machine, installation.host));
    return {};
  }

  Result<void> check_mounts() const {
    for (const auto& mount : spec.extra_mounts)
      if (!fs::exists(mount.source))
        return fail(base::error(ErrorCode::not_found, fmt::format("{}, which run {} had mounted at {}, is gone",
                                                                  mount.source.string(), old_id, mount.target))
                        .with_hint("bring it back, or start a new run with other mounts"));
    return {};
  }

  void tell_other_machine() {
    const Json& then = base::member(record, "machine");
    const Json now = machine::to_json(machine);
    if (const auto host = base::string_at(then, "hostname"); host != machine.hostname)
      say(fmt::format("another machine: {} then, {} now", host, machine.hostname));
    if (base::member(then, "driver") != base::member(now, "driver")) say("another NVIDIA driver than then");
    const auto names = [](const Json& gpus) {
      std::vector<std::string> result;
      for (const auto& gpu : gpus) result.push_back(base::string_at(gpu, "name"));
      return result;
    };
    if (names(base::member(then, "gpus")) != names(base::member(now, "gpus"))) say("other GPUs than then");
  }

  Result<sandbox::Support> support() const {
    if (spec.isolation != "none") return sandbox::probe(machine);
    reporter.warn("the recorded run had no isolation, and so has this one");
    return sandbox::Support{.mode = sandbox::Mode::none, .limits_by = "no isolation, as recorded"};
  }
};

Result<Again> open_record(const Installation& installation, const std::string& name, Phases& phases,
                          Reporter& reporter) {
  auto store = TRY(open_runs(installation, reporter));
  Again again{installation, phases, reporter, TRY(store.find(name))};
  again.spec = TRY(store.spec(again.old_id));
  if (const auto& instance = again.spec.instance)
    return fail(
        base::error(ErrorCode::invalid_input, fmt::format("{} was the instance {}, which has no one command to repeat",
                                                          again.old_id, instance->name))
            .with_hint(fmt::format("start it: trail up -C {} {}", base::shell_quote(again.spec.workspace.string()),
                                   instance->name)));
  again.record = base::member(TRY(store.whole_record(again.old_id)), "record");
  return again;
}

}  // namespace

namespace {

Result<PreparedRun> prepare_in(const fs::path& folder, Again& again, Where where) {
  const auto support = TRY(again.support());
  Json git = base::member(again.record, "git");
  if (where == Where::fresh_folder)
    TRY(again.restore_code(folder));
  else
    git = TRY(again.take_present_code());
  again.phases.end("restoring the code");
  again.tell_other_machine();
  TRY(again.choose_gpus());
  Json in_words;
  PreparedRun run;
  run.store_in_use = TRY(use_store(again.installation, again.reporter));
  run.image = TRY(again.find_image(folder, in_words));
  again.phases.end("the image");
  run.spec = std::move(again.spec);
  run.spec.rerun_of = again.old_id;
  run.spec.image_id = run.image ? run.image->id : "";
  run.circumstances = circumstances_of(again.installation, again.machine, run.spec, support);
  run.circumstances.image = in_words;
  run.circumstances.git = git;
  run.circumstances.notes = again.notes;
  return run;
}

}  // namespace

// The folder of a run stays with what it wrote there; that of one which never came about goes.
Result<PreparedRun> prepare_rerun(const Installation& installation, const std::string& id, Where where, Phases& phases,
                                  Reporter& reporter) {
  TRY(prepare_state(installation));
  Again again = TRY(open_record(installation, id, phases, reporter));
  phases.end("reading the record");
  again.machine = machine::survey(installation.host, installation.paths.root, machine::Depth::quick);
  TRY(again.check_mounts());
  const fs::path folder = TRY(again.make_folder());
  auto run = prepare_in(folder, again, where);
  if (!run || where == Where::present_folder) [[maybe_unused]]
    const auto removed = base::remove_tree(folder);
  return run;
}

}  // namespace startrail::app
