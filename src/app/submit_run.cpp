#include "app/submit_run.hpp"

#include <fmt/format.h>

#include "app/circumstances.hpp"
#include "engine/local/local_engine.hpp"
#include "run/git_facts.hpp"
#include "run/snapshot.hpp"

namespace startrail::app {
namespace {

FolderState::Found look_at(const fs::path& folder, const fs::path& snapshots) {
  const auto begin = Phases::Clock::now();
  FolderState::Found found;
  found.git = run::git_facts(folder);
  if (auto snapshot = run::take_snapshot(folder, snapshots, {}))
    found.snapshot = std::move(*snapshot);
  else
    found.problem = std::move(snapshot.error().message);
  found.took = Phases::Clock::now() - begin;
  return found;
}

// The database is closed again before the engine starts anything: a supervisor may be a copy of this process, and
// SQLite must not be carried over a fork while it is open (its "How To Corrupt An SQLite Database File", 2.6).
Result<std::string> create_record(const Installation& installation, const run::RunSpec& spec,
                                  const run::Circumstances& circumstances, Reporter& reporter) {
  auto store = TRY(run::RunStore::open(installation.paths, [&](std::string_view text) { reporter.warn(text); }));
  return store.create(spec, circumstances);
}

}  // namespace

FolderState::FolderState(fs::path folder, fs::path snapshots)
    : m_found(std::async(std::launch::async, [folder = std::move(folder), snapshots = std::move(snapshots)] {
        return look_at(folder, snapshots);
      })) {}

run::Circumstances circumstances_of(const Installation& installation, const machine::Machine& machine,
                                    const run::RunSpec& spec, const sandbox::Support& support) {
  run::Circumstances circumstances;
  circumstances.created = base::now();
  circumstances.user = installation.user;
  circumstances.hostname = machine.hostname;
  circumstances.machine = machine::to_json(machine);
  circumstances.seeds = find_seeds(spec.command, spec.environment);
  circumstances.limits_by = support.limits_by;
  return circumstances;
}

Result<base::Fd> use_store(const Installation& installation, Reporter& reporter) {
  return image::hold_store(installation.paths.store(), reporter);
}

Result<SubmittedRun> submit_run(const Installation& installation, PreparedRun prepared, Phases& phases,
                                Reporter& reporter) {
  // Used again this very moment: a prune that looked for live runs just before this one was recorded, and now waits for
  // the store, spares it for that.
  if (prepared.image) TRY(image::open(installation.paths.store(), prepared.image->id));
  SubmittedRun submitted{.spec = std::move(prepared.spec), .image = std::move(prepared.image)};
  submitted.id = TRY(create_record(installation, submitted.spec, prepared.circumstances, reporter));
  submitted.spec.id = submitted.id;
  phases.end("writing the record");
  const auto engine = engine::local::make_engine(installation.paths, installation.program);
  TRY(engine->submit(submitted.id));
  phases.end("starting the supervisor");
  return submitted;
}

}  // namespace startrail::app
