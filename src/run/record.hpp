// What is written down about a run: spec.json, record.json, state.json, request.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "run/state.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::run {

// The instance that a run is one life of.
struct OfInstance {
  std::string name;
  std::string key;                            // tells it from another of the same name
  std::vector<std::filesystem::path> layers;  // below the image's: SSH server, pip
};

// What the user asked for; complete enough to run again. Written once as runs/<id>/spec.json.
struct RunSpec {
  std::string id;  // "quiet-falcon-3f2a": readable, unique, sorts nowhere
  std::vector<std::string> command;
  std::filesystem::path workspace;                // absolute, where it ran
  std::optional<sandbox::Place> workspace_place;  // what was there when the run was asked for
  std::string image_id;                           // "sha256:…"; "" with isolation none
  std::string lock_digest;
  std::string lock_toml;  // the lock itself: rerun needs nothing else
  std::string snapshot;   // id of the folder's snapshot, "" when it could not be taken
  std::string engine = "local";
  std::string isolation;  // "root", "rootless", "none"
  sandbox::Limits limits;
  sandbox::Network network = sandbox::Network::host;
  std::vector<sandbox::Mount> extra_mounts;
  base::Environment environment;  // --env and trail.toml, not the machine's
  std::vector<int> gpus;          // indexes; empty: none
  bool gpus_requested_all = true;
  int stop_grace_seconds = 30;
  sandbox::Scratch scratch_after = sandbox::Scratch::discarded;  // /mnt/temp goes in any case
  std::string rerun_of;
  std::optional<OfInstance> instance;  // `command` only tells how it was started then
};
[[nodiscard]] Json to_json(const RunSpec& spec);
// Errors: corrupt.
[[nodiscard]] Result<RunSpec> run_spec_from_json(const Json& json);

// What is known about the circumstances; runs/<id>/record.json, written before the start.
struct Circumstances {
  base::Time created;
  std::string user, hostname;
  Json machine;    // machine::to_json
  Json git;        // {"commit", "branch", "dirty"} or null
  Json image;      // summary: python, framework, versions
  Json seeds;      // environment and flags that look like seeds
  Json limits_by;  // how limits hold: sandbox::Support::limits_by and identity
  std::vector<std::string> notes;
};
[[nodiscard]] Json to_json(const Circumstances& circumstances);

// The moving part; runs/<id>/state.json, replaced atomically at each change.
struct Status {
  State state = State::queued;
  base::ProcessIdentity supervisor;  // boot id + pid + start time; while queued, the submitter's
  std::optional<base::Time> started, running, ended;
  std::optional<int> exit_code;  // of the command
  std::optional<int> signal;
  std::string cause;  // one line: "killed: memory limit 512 MiB reached", "" while alive or on success
  std::optional<Bytes> peak_memory;
  std::vector<std::string> remarks;  // "GPU 0 still held by pid 4711 (python)"
  std::optional<Error> error;        // why the command never started, for printing with its hints
  // What its log shows about a failure, as `trail doctor RUN --json` has it: an array, the best first; empty when
  // nothing known is in it, null while nobody has looked.
  Json findings;
};
[[nodiscard]] Json to_json(const Status& status);
[[nodiscard]] Result<Status> status_from_json(const Json& json);

// Error ↔ JSON as state.json and `--json` output hold it: {"code", "message", "context", "hints", "detail"}.
[[nodiscard]] Json error_to_json(const Error& error);
[[nodiscard]] Error error_from_json(const Json& json);

enum class StopHow { gracefully, at_once };

// Who asked for the end, and how; runs/<id>/request.json.
struct StopRequest {
  StopHow how = StopHow::gracefully;
  std::string by;  // a user's name
  base::Time at;
};
[[nodiscard]] Result<void> write_stop_request(const std::filesystem::path& run_directory, const StopRequest& request);
// nullopt when nobody asked.
[[nodiscard]] std::optional<StopRequest> read_stop_request(const std::filesystem::path& run_directory);

// The supervisor's way to write a status without opening the database twice: file first; the index follows
// when the state is final (a live run's state is always read from its file).
// The process that the file names as the owner may leave out states that it could not write (a full disk).
// Errors: conflict when the state may not follow the one in the file; nothing is written then.
[[nodiscard]] Result<void> write_status(const std::filesystem::path& run_directory, const Status& status);
// The same for a judgement about somebody else's run: only while the file still holds `seen`'s state and owner.
[[nodiscard]] Result<void> replace_status(const std::filesystem::path& run_directory, const Status& seen,
                                          const Status& status);
[[nodiscard]] Result<Status> read_status(const std::filesystem::path& run_directory);

// Files of runs/<id>/.
inline constexpr const char* k_spec_file = "spec.json";
inline constexpr const char* k_record_file = "record.json";
inline constexpr const char* k_state_file = "state.json";
inline constexpr const char* k_request_file = "request.json";
inline constexpr const char* k_container_file = "container.json";  // who ran inside, and how limits held
inline constexpr const char* k_log_file = "log";
inline constexpr const char* k_log_index_file = "log.index";
inline constexpr const char* k_supervisor_log_file = "supervisor.log";
// Folders of runs/<id>/ that go with the run's end.
inline constexpr const char* k_scratch_folder = "scratch";  // overlay, bundle, runtime state
inline constexpr const char* k_temp_folder = "temp";        // /mnt/temp

}  // namespace startrail::run
