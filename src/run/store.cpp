#include "run/store.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <map>
#include <set>

#include "base/files.hpp"
#include "run/index.hpp"
#include "run/leftovers.hpp"
#include "run/nearest_names.hpp"
#include "run/run.hpp"
#include "run/run_id.hpp"

namespace startrail::run {

struct RunStore::Parts {
  base::StatePaths paths;
  std::function<void(std::string_view)> on_repair;
  std::optional<Index> index;  // always there, but while it is being replaced

  Result<void> repair(const std::string& reason);
};

namespace {

Result<RunSpec> read_spec(const fs::path& run_directory) {
  const fs::path file = run_directory / k_spec_file;
  const Json json = TRY(base::read_json_file(file));
  return TRY_CONTEXT(run_spec_from_json(json), "read from " + file.string());
}

void take_over(RunStore::Listed& run, const Status& status) {
  run.state = status.state;
  run.ended = status.ended;
  run.exit_code = status.exit_code;
  run.cause = status.cause;
}

Result<RunStore::Listed> read_listed(const fs::path& run_directory) {
  const RunSpec spec = TRY(read_spec(run_directory));
  const Json record = TRY(base::read_json_file(run_directory / k_record_file));
  const base::Time created = TRY(base::parse_time(base::string_at(record, "created")));
  RunStore::Listed run{.id = run_directory.filename(),
                       .command = base::shell_join(spec.command),
                       .image_id = spec.image_id,
                       .workspace = spec.workspace,
                       .created = created};
  take_over(run, TRY(read_status(run_directory)));
  return run;
}

std::set<std::string> folder_names(const fs::path& runs) {
  std::set<std::string> names;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(runs, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    std::string folder = entry->path().filename();
    if (!folder.starts_with('.')) names.insert(std::move(folder));
  }
  return names;
}

// SQLite's own companions go along, or the fresh database would be "recovered" from the old one's log.
Result<fs::path> set_aside(const fs::path& database) {
  std::string stamp = base::to_text(base::now());
  std::ranges::replace(stamp, ':', '-');
  const fs::path aside = database.string() + ".corrupt-" + stamp;
  for (const char* suffix : {"-wal", "-shm", "-journal"}) {
    std::error_code ignored;
    fs::rename(database.string() + suffix, aside.string() + suffix, ignored);
  }
  std::error_code failed;
  fs::rename(database, aside, failed);
  if (failed) return fail(base::errno_error(fmt::format("cannot move {} aside", database.string()), failed.value()));
  return aside;
}

struct Found {
  std::vector<RunStore::Listed> runs, damaged;
};

std::string damage(const Error& reason) {
  return "its record is damaged: " + reason.message;
}

// A folder that was made this very moment has no record yet; one that has none later lost it to a power cut or a hand.
std::optional<RunStore::Listed> damaged_run(const fs::path& folder, const Error& reason) {
  constexpr std::time_t k_in_the_making = 10;
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return std::nullopt;
  if (::time(nullptr) - status.st_mtime < k_in_the_making) return std::nullopt;
  return RunStore::Listed{.id = folder.filename(),
                          .state = State::lost,
                          .created = base::Time(std::chrono::seconds(status.st_mtime)),
                          .cause = damage(reason)};
}

Found read_all(const fs::path& runs, const std::set<std::string>& names) {
  Found found;
  for (const auto& folder : names) {
    auto run = read_listed(runs / folder);
    if (run) {
      found.runs.push_back(std::move(*run));
    } else if (auto damaged = damaged_run(runs / folder, run.error())) {
      found.damaged.push_back(std::move(*damaged));
    }
  }
  return found;
}

// The damaged file must be closed before: SQLite would go on writing to it under its new name.
Result<Index> rebuild(const base::StatePaths& paths, const std::function<void(std::string_view)>& on_repair,
                      const std::string& reason) {
  const fs::path aside = TRY(set_aside(paths.database()));
  Index index = TRY(Index::open(paths.database()));
  const auto runs = read_all(paths.runs(), folder_names(paths.runs())).runs;
  TRY(index.put_all(runs));
  if (on_repair)
    on_repair(fmt::format("the list of runs was damaged ({}); it was rebuilt from {} run folders, the old file is {}",
                          reason, runs.size(), aside.string()));
  return index;
}

std::string lost_cause(const Status& status) {
  if (status.supervisor.boot_id != base::boot_id()) return "the machine was restarted (boot id changed)";
  if (status.state == State::queued)
    return fmt::format("its submitter (pid {}) died before it was started", status.supervisor.pid);
  return fmt::format("its supervisor (pid {}) was killed", status.supervisor.pid);
}

// A supervisor writes the final state before it tidies up; one that was killed in between left that to us.
void tidy_up_after(const fs::path& folder, const Status& status) {
  if (!base::is_of_here(status.supervisor) || base::is_alive(status.supervisor)) return;
  if (const auto spec = read_spec(folder); spec && has_leftovers(folder, *spec)) remove_leftovers(folder, *spec);
}

// Nobody comes back to take over what a dead supervisor had, so its files may go before the verdict, to make room for
// it.
Result<void> declare_lost(const fs::path& folder, const Status& seen, const Status& lost, const RunSpec& spec) {
  auto written = replace_status(folder, seen, lost);
  if (!written && written.error().code == ErrorCode::no_space && seen.state != State::queued) {
    remove_leftovers(folder, spec);
    return replace_status(folder, seen, lost);
  }
  if (written) remove_leftovers(folder, spec);
  return written;
}

Result<std::string> make_run_directory(const fs::path& runs) {
  for (;;) {
    std::string id = random_run_id();
    if (::mkdir((runs / id).c_str(), 0700) == 0) return id;
    if (errno != EEXIST) return fail(base::errno_error(fmt::format("cannot create a run in {}", runs.string()), errno));
  }
}

Error not_found(const std::string& wanted, const std::set<std::string>& names) {
  Error reason = base::error(ErrorCode::not_found, fmt::format("there is no run `{}`", wanted));
  if (const auto near = nearest_names(wanted, names); !near.empty())
    reason.with_hint(fmt::format("did you mean {}?", fmt::join(near, " or ")));
  return std::move(reason.with_hint("`trail ps --all` lists every run"));
}

Json json_or_null(const fs::path& file) {
  auto json = base::read_json_file(file);
  return json ? std::move(*json) : Json(nullptr);
}

Json snapshot_summary(const fs::path& snapshots, const std::string& id) {
  if (id.empty()) return nullptr;
  const auto manifest = snapshot_manifest(snapshots, id);
  if (!manifest) return {{"id", id}, {"files", nullptr}, {"size", nullptr}, {"omitted", Json::array()}};
  return {{"id", id},
          {"files", base::member(*manifest, "files").size() + base::member(*manifest, "links").size()},
          {"size", base::member(*manifest, "size")},
          {"omitted", base::member(*manifest, "omitted")}};
}

}  // namespace

RunStore::RunStore(std::unique_ptr<Parts> parts) : m_parts(std::move(parts)) {}
RunStore::RunStore(RunStore&&) noexcept = default;
RunStore& RunStore::operator=(RunStore&&) noexcept = default;
RunStore::~RunStore() = default;

Result<RunStore> RunStore::open(const base::StatePaths& paths, const std::function<void(std::string_view)>& on_repair) {
  TRY(base::make_directories(paths.runs()));
  auto parts = std::make_unique<Parts>(Parts{.paths = paths, .on_repair = on_repair, .index = {}});
  auto index = Index::open(paths.database());
  if (index) {
    parts->index = std::move(*index);
  } else if (index.error().code == ErrorCode::corrupt) {
    TRY(parts->repair(index.error().message));
  } else {
    return fail(std::move(index).error());
  }
  return RunStore(std::move(parts));
}

Result<void> RunStore::Parts::repair(const std::string& reason) {
  index.reset();
  index = TRY(rebuild(paths, on_repair, reason));
  return {};
}

fs::path RunStore::directory(const std::string& id) const {
  return m_parts->paths.runs() / id;
}

Result<std::string> RunStore::create(RunSpec spec, const Circumstances& circumstances) {
  spec.id = TRY(make_run_directory(m_parts->paths.runs()));
  const fs::path folder = directory(spec.id);
  const Status status{.supervisor = TRY(base::process_identity(::getpid()))};
  TRY(base::write_file_atomic(folder / k_spec_file, base::to_pretty_text(to_json(spec)), 0600));
  TRY(base::write_file_atomic(folder / k_record_file, base::to_pretty_text(to_json(circumstances))));
  TRY(base::write_file_atomic(folder / k_state_file, base::to_pretty_text(to_json(status))));
  // A database that can't be written loses nothing: list() finds the folder.
  [[maybe_unused]] const auto indexed = m_parts->index->put({.id = spec.id,
                                                             .command = base::shell_join(spec.command),
                                                             .image_id = spec.image_id,
                                                             .workspace = spec.workspace,
                                                             .created = circumstances.created});
  return spec.id;
}

Result<std::string> RunStore::find(const std::string& id_or_prefix) {
  if (id_or_prefix == "latest") {
    for (const auto& run : TRY(list(Which::all)))
      if (const auto spec = read_spec(directory(run.id)); !spec || !spec->instance) return run.id;
    return fail(base::error(ErrorCode::not_found, "there is no run yet")
                    .with_hint("`trail run -- python train.py` starts one"));
  }
  const auto names = folder_names(m_parts->paths.runs());
  if (names.contains(id_or_prefix)) return id_or_prefix;
  std::vector<std::string> matches;
  if (!id_or_prefix.empty())
    for (auto at = names.lower_bound(id_or_prefix); at != names.end() && at->starts_with(id_or_prefix); ++at)
      matches.push_back(*at);
  if (matches.size() == 1) return matches.front();
  if (matches.empty()) return fail(not_found(id_or_prefix, names));
  const std::size_t shown = std::min<std::size_t>(matches.size(), 5);
  return fail(base::error(ErrorCode::invalid_input, fmt::format("`{}` could be {} runs", id_or_prefix, matches.size()))
                  .with_hint(fmt::format("give more of its name: {}",
                                         fmt::join(matches.begin(), matches.begin() + shown, ", "))));
}

Result<RunSpec> RunStore::spec(const std::string& id) {
  return read_spec(directory(id));
}

Result<Status> RunStore::status(const std::string& id) {
  const fs::path folder = directory(id);
  Status status = TRY(read_status(folder));
  if (is_final(status.state)) tidy_up_after(folder, status);
  // Without a process of this machine there is nothing to look for: the engine that runs it knows. A run of another
  // machine, or of another container on this one, that shares the folder is not ours to judge.
  if (is_final(status.state) || status.supervisor.pid == 0 || !base::is_of_here(status.supervisor)) return status;
  if (base::is_alive(status.supervisor)) return status;
  const RunSpec spec = TRY(read_spec(folder));
  if (spec.engine != "local") return status;
  Status lost = status;
  lost.cause = lost_cause(status);
  lost.state = State::lost;
  lost.ended = base::now();
  // Its supervisor may have ended, or taken it over, between the two looks.
  if (auto written = declare_lost(folder, status, lost, spec); !written && written.error().code == ErrorCode::conflict)
    return read_status(folder);
  return lost;
}

Result<void> RunStore::set_status(const std::string& id, const Status& status) {
  return write_status(directory(id), status);
}

Result<Json> RunStore::whole_record(const std::string& id) {
  const fs::path folder = directory(id);
  const Json spec = TRY(base::read_json_file(folder / k_spec_file));
  const Status now = TRY(status(id));
  std::error_code failed;
  const auto log_size = fs::file_size(folder / k_log_file, failed);
  return Json{{"id", id},
              {"spec", spec},
              {"record", json_or_null(folder / k_record_file)},
              {"status", to_json(now)},
              {"container", json_or_null(folder / k_container_file)},
              {"snapshot", snapshot_summary(m_parts->paths.snapshots(), base::string_at(spec, "snapshot"))},
              {"log", {{"file", (folder / k_log_file).string()}, {"bytes", failed ? 0 : log_size}}}};
}

void RunStore::bring_up_to_date(Listed& run) {
  const auto now = status(run.id);
  if (now) {
    take_over(run, *now);
    // A supervisor that could not reach the database wrote its end to the folder only.
    if (is_final(now->state)) [[maybe_unused]]
      const auto updated = m_parts->index->update(run.id, *now);
  } else if (now.error().code == ErrorCode::corrupt || now.error().code == ErrorCode::not_found) {
    run.state = State::lost;
    run.cause = damage(now.error());
  }
}

Result<std::vector<RunStore::Listed>> RunStore::list(Which which) {
  std::set<std::string> names = folder_names(m_parts->paths.runs());
  std::vector<Listed> runs;
  auto rows = m_parts->index->all();
  // Damage behind a good header shows only when the pages are read.
  if (!rows && rows.error().code == ErrorCode::corrupt) {
    TRY(m_parts->repair(rows.error().message));
    rows = m_parts->index->all();
  }
  auto indexed = TRY(std::move(rows));
  for (Listed& run : indexed) {
    if (names.erase(run.id) != 0) {
      runs.push_back(std::move(run));
    } else {
      [[maybe_unused]] const auto removed = m_parts->index->remove(run.id);
    }
  }
  if (!names.empty()) {
    auto missing = read_all(m_parts->paths.runs(), names);
    [[maybe_unused]] const auto learnt = m_parts->index->put_all(missing.runs);
    std::ranges::move(missing.runs, std::back_inserter(runs));
    std::ranges::move(missing.damaged, std::back_inserter(runs));
    std::ranges::stable_sort(runs, std::greater{}, &Listed::created);
  }
  for (Listed& run : runs)
    if (!is_final(run.state)) bring_up_to_date(run);
  if (which == Which::live) std::erase_if(runs, [](const Listed& run) { return is_final(run.state); });
  return runs;
}

}  // namespace startrail::run
