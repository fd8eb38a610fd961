// state.json and request.json on disk.
#include <fmt/format.h>

#include "base/files.hpp"
#include "run/index.hpp"
#include "run/record.hpp"

namespace startrail::run {
namespace {

// Two writers (a supervisor that ends, somebody who finds it dead) must not overwrite each other's verdict.
Result<base::FileLock> lock_state(const fs::path& run_directory) {
  return base::FileLock::acquire(run_directory / ".state.lock");
}

Result<void> check_transition(const fs::path& run_directory, const Status& before, const Status& status) {
  const bool own = before.supervisor.pid == 0 || before.supervisor == status.supervisor;
  const bool same_live_state = own && before.state == status.state && !is_final(status.state);
  if (same_live_state || may_follow(before.state, status.state)) return {};
  if (own && before.supervisor.pid != 0 && may_follow_by_owner(before.state, status.state)) return {};
  return fail(ErrorCode::conflict, fmt::format("run {} is {}; it can't become {}", run_directory.filename().string(),
                                               name(before.state), name(status.state)));
}

// The lock is the caller's.
Result<void> put_status(const fs::path& run_directory, const Status& status) {
  return base::write_file_atomic(run_directory / k_state_file, base::to_pretty_text(to_json(status)));
}

// Best effort: the folder is the truth, and RunStore::list reads what the index lacks.
void update_index(const fs::path& run_directory, const Status& status) {
  if (auto index = Index::open(run_directory.parent_path().parent_path() / "state.db")) [[maybe_unused]]
    const auto updated = index->update(run_directory.filename().string(), status);
}

}  // namespace

Result<void> write_status(const fs::path& run_directory, const Status& status) {
  {
    const base::FileLock lock = TRY(lock_state(run_directory));
    const Status before = TRY(read_status(run_directory));
    TRY(check_transition(run_directory, before, status));
    TRY(put_status(run_directory, status));
  }
  if (is_final(status.state)) update_index(run_directory, status);
  return {};
}

Result<void> replace_status(const fs::path& run_directory, const Status& seen, const Status& status) {
  {
    const base::FileLock lock = TRY(lock_state(run_directory));
    const Status before = TRY(read_status(run_directory));
    if (before.state != seen.state || before.supervisor != seen.supervisor)
      return fail(ErrorCode::conflict,
                  fmt::format("run {} has become {} meanwhile", run_directory.filename().string(), name(before.state)));
    TRY(check_transition(run_directory, before, status));
    TRY(put_status(run_directory, status));
  }
  if (is_final(status.state)) update_index(run_directory, status);
  return {};
}

Result<Status> read_status(const fs::path& run_directory) {
  const fs::path file = run_directory / k_state_file;
  const Json json = TRY(base::read_json_file(file));
  return TRY_CONTEXT(status_from_json(json), "read from " + file.string());
}

Result<void> write_stop_request(const fs::path& run_directory, const StopRequest& request) {
  const Json json{{"how", request.how == StopHow::at_once ? "at_once" : "gracefully"},
                  {"by", request.by},
                  {"at", base::to_text(request.at)}};
  return base::write_file_atomic(run_directory / k_request_file, base::to_pretty_text(json));
}

std::optional<StopRequest> read_stop_request(const fs::path& run_directory) {
  const auto json = base::read_json_file(run_directory / k_request_file);
  if (!json) return std::nullopt;
  return StopRequest{
      .how = base::string_at(*json, "how") == "at_once" ? StopHow::at_once : StopHow::gracefully,
      .by = base::string_at(*json, "by"),
      .at = base::parse_time(base::string_at(*json, "at")).value_or(base::Time{}),
  };
}

}  // namespace startrail::run
