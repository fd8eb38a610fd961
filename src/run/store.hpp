// runs/<id>/ and state.db together: the folders are the truth, the database makes listing fast.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/state_paths.hpp"
#include "run/record.hpp"

namespace startrail::run {

class RunStore {
 public:
  // Opens the database; a corrupt one is moved to state.db.corrupt-<time> and rebuilt, which `on_repair` is told (now,
  // or when `list` meets the damage).
  [[nodiscard]] static Result<RunStore> open(const base::StatePaths& paths,
                                             const std::function<void(std::string_view)>& on_repair);
  RunStore(RunStore&&) noexcept;
  RunStore& operator=(RunStore&&) noexcept;
  ~RunStore();

  // A fresh id and its directory with spec, record and state `queued`, owned by the calling process until a
  // supervisor takes over: when the caller dies before that, the run is lost.
  [[nodiscard]] Result<std::string> create(RunSpec spec, const Circumstances& circumstances);
  [[nodiscard]] std::filesystem::path directory(const std::string& id) const;
  // By id, unique prefix, or "latest", which is no instance's. Errors: not_found (with the nearest names),
  // invalid_input (ambiguous).
  [[nodiscard]] Result<std::string> find(const std::string& id_or_prefix);
  [[nodiscard]] Result<RunSpec> spec(const std::string& id);
  // Notices a dead supervisor: the run becomes `lost` with its cause, and what it left is removed. A live supervisor
  // may still be removing its scratch folders for a moment after a final state. A run whose supervisor is on another
  // machine, or in another PID namespace, is told as its file says it.
  [[nodiscard]] Result<Status> status(const std::string& id);
  [[nodiscard]] Result<void> set_status(const std::string& id, const Status& status);
  // {"id", "spec", "record", "status", "container", "snapshot", "log": {"bytes"}}: what `inspect --json` prints.
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
  // Newest first. Runs that the index doesn't know are read from their folders, rows without a folder dropped; a folder
  // whose record can't be read is told as lost, with that cause.
  [[nodiscard]] Result<std::vector<Listed>> list(Which which);

 private:
  void bring_up_to_date(Listed& run);
  struct Parts;
  explicit RunStore(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> m_parts;
};

}  // namespace startrail::run
