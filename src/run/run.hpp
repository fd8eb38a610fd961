// A run: its specification, its states, its record on disk, and the engines that execute it.
// runs/<id>/ holds everything; state.db only makes listing fast.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/state_paths.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::run {

enum class State { queued, preparing, running, ending, succeeded, failed, stopped, killed, preempted, lost };
[[nodiscard]] std::string_view name(State state);
[[nodiscard]] std::optional<State> state_from_name(std::string_view name);
[[nodiscard]] bool is_final(State state);
// queued → preparing → running → ending → final; any live state may become lost; nothing leaves a final one.
[[nodiscard]] bool may_follow(State from, State to);

// What the user asked for; complete enough to run again. Written once as runs/<id>/spec.json.
struct RunSpec {
  std::string id;                       // "quiet-falcon-3f2a": readable, unique, sorts nowhere
  std::vector<std::string> command;
  std::filesystem::path workspace;      // absolute, where it ran
  std::string image_id;                 // "sha256:…"; "" with isolation none
  std::string lock_digest;
  std::string lock_toml;                // the lock itself: rerun needs nothing else
  std::string snapshot;                 // id of the folder's snapshot, "" when it could not be taken
  std::string engine = "local";
  std::string isolation;                // "root", "rootless", "none"
  sandbox::Limits limits;
  sandbox::Network network = sandbox::Network::host;
  std::vector<sandbox::Mount> extra_mounts;
  base::Environment environment;        // --env and trail.toml, not the machine's
  std::vector<int> gpus;                // indexes; empty: none
  bool gpus_requested_all = true;
  int stop_grace_seconds = 30;
  std::string rerun_of;
};
[[nodiscard]] Json to_json(const RunSpec& spec);
[[nodiscard]] Result<RunSpec> run_spec_from_json(const Json& json);

// What is known about the circumstances; runs/<id>/record.json, written before the start.
struct Circumstances {
  base::Time created;
  std::string user, hostname;
  Json machine;             // machine::to_json
  Json git;                 // {"commit", "branch", "dirty"} or null
  Json image;               // summary: python, framework, versions
  Json seeds;               // environment and flags that look like seeds
  Json limits_by;           // how limits hold: sandbox::Support::limits_by and identity
  std::vector<std::string> notes;
};
[[nodiscard]] Json to_json(const Circumstances& circumstances);

// The moving part; runs/<id>/state.json, replaced atomically at each change.
struct Status {
  State state = State::queued;
  base::ProcessIdentity supervisor;     // boot id + pid + start time
  std::optional<base::Time> started, running, ended;
  std::optional<int> exit_code;         // of the command
  std::optional<int> signal;
  std::string cause;                    // one line: "killed: memory limit 512 MiB reached", "" while alive or on success
  std::optional<Bytes> peak_memory;
  std::vector<std::string> remarks;     // "GPU 0 still held by pid 4711 (python)"
};
[[nodiscard]] Json to_json(const Status& status);
[[nodiscard]] Result<Status> status_from_json(const Json& json);

// runs/<id>/ and state.db together.
class RunStore {
 public:
  // Opens the database; a corrupt one is moved to state.db.corrupt-<time> and rebuilt, which `on_repair` is told.
  [[nodiscard]] static Result<RunStore> open(const base::StatePaths& paths,
                                             const std::function<void(std::string_view)>& on_repair);
  RunStore(RunStore&&) noexcept;
  RunStore& operator=(RunStore&&) noexcept;
  ~RunStore();

  // A fresh id and its directory with spec, record and state `queued`.
  [[nodiscard]] Result<std::string> create(RunSpec spec, const Circumstances& circumstances);
  [[nodiscard]] std::filesystem::path directory(const std::string& id) const;
  // By id, unique prefix, or "latest". Errors: not_found (with the nearest names), invalid_input (ambiguous).
  [[nodiscard]] Result<std::string> find(const std::string& id_or_prefix);
  [[nodiscard]] Result<RunSpec> spec(const std::string& id);
  // Notices a dead supervisor: the run becomes `lost` with its cause, and what it left is removed.
  [[nodiscard]] Result<Status> status(const std::string& id);
  [[nodiscard]] Result<void> set_status(const std::string& id, const Status& status);
  // spec, record, status, snapshot summary, log size: what `inspect --json` prints.
  [[nodiscard]] Result<Json> whole_record(const std::string& id);

  struct Listed {
    std::string id, command, image_id, workspace;
    State state = State::queued;
    base::Time created;
    std::optional<base::Time> ended;
    std::optional<int> exit_code;
    std::string cause;
  };
  enum class Which { live, all };
  [[nodiscard]] Result<std::vector<Listed>> list(Which which);  // newest first

 private:
  struct Parts;
  explicit RunStore(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> m_parts;
};

// The supervisor's way to write a status without opening the database twice: file first, then index (best effort).
[[nodiscard]] Result<void> write_status(const std::filesystem::path& run_directory, const Status& status);
[[nodiscard]] Result<Status> read_status(const std::filesystem::path& run_directory);

// ---- log (runs/<id>/log and log.index) ----
// `log` holds the bytes as they came; `log.index` one 16-byte little-endian record per chunk:
// u64 end offset in `log`, u64 (milliseconds since 1970) << 1 | stream (0 stdout, 1 stderr).
class LogWriter {
 public:
  [[nodiscard]] static Result<LogWriter> open(const std::filesystem::path& run_directory);
  enum class Stream { output = 0, errors = 1 };
  [[nodiscard]] Result<void> append(Stream stream, std::string_view data);

 private:
  LogWriter(base::Fd log, base::Fd index, std::uint64_t size);
  base::Fd m_log, m_index;
  std::uint64_t m_size = 0;
};
struct LogChunk {
  LogWriter::Stream stream = LogWriter::Stream::output;
  base::Time time;
  std::string data;
};
// Reads on from where it was; survives a torn last index record.
class LogReader {
 public:
  explicit LogReader(std::filesystem::path run_directory);
  // Chunks that arrived since the last call (at most about 1 MiB); empty when there are none.
  [[nodiscard]] Result<std::vector<LogChunk>> next();
  // Skips to the last `count` lines.
  [[nodiscard]] Result<void> seek_to_last_lines(std::size_t count);

 private:
  std::filesystem::path m_directory;
  std::uint64_t m_offset = 0, m_index_offset = 0;
};

// ---- snapshot: the folder's non-ignored files, content-addressed (snapshots/objects/<2>/<sha256>, zstd) ----
struct Snapshot {
  std::string id;                      // SHA-256 of its manifest
  std::size_t files = 0;
  Bytes size;
  std::vector<std::string> omitted;    // "weights.bin (4.0 GiB: over the 50 MiB file cap)"
};
struct SnapshotLimits {
  Bytes per_file{50ULL << 20U};
  Bytes total{500ULL << 20U};
};
// Honours .gitignore through git when the folder is a repository, else skips .git, __pycache__, venvs, node_modules.
[[nodiscard]] Result<Snapshot> take_snapshot(const std::filesystem::path& folder, const std::filesystem::path& snapshots,
                                             const SnapshotLimits& limits);
// Writes the files into an empty directory. Errors: not_found, corrupt.
[[nodiscard]] Result<void> restore_snapshot(const std::filesystem::path& snapshots, const std::string& id,
                                            const std::filesystem::path& into);
// {"files": {path: sha256}, "omitted": […], "size": bytes}
[[nodiscard]] Result<Json> snapshot_manifest(const std::filesystem::path& snapshots, const std::string& id);

// ---- cause of death ----
// One line from how it ended and the log's tail: "killed: memory limit 512 MiB reached", "signal 11 in python",
// "CUDA out of memory: tried to allocate 2.00 GiB", "ModuleNotFoundError: No module named 'foo'", "exit code 3".
[[nodiscard]] std::string cause_of_death(const sandbox::Ended& ended, const RunSpec& spec, std::string_view log_tail);

// ---- engines ----
enum class StopHow { gracefully, at_once };

class Engine {
 public:
  virtual ~Engine() = default;
  // Returns when the run is accepted (local: its supervisor has its identity in the record).
  [[nodiscard]] virtual Result<void> submit(const std::string& run_id) = 0;
  // Asks for the end; returns at once. A run that already ended is fine.
  [[nodiscard]] virtual Result<void> stop(const std::string& run_id, StopHow how) = 0;
};

}  // namespace startrail::run
