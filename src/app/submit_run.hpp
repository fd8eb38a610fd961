// The last step of `run` and `rerun`: the record is made, then the engine takes over.
#pragma once

#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <string>

#include "app/installation.hpp"
#include "app/phases.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "image/image.hpp"
#include "run/run.hpp"

namespace startrail::app {

// The folder's snapshot and its repository's state, worked out beside the rest.
class FolderState {
 public:
  struct Found {
    std::optional<run::Snapshot> snapshot;
    Json git;
    std::string problem;  // why there is no snapshot, "" when there is one
    std::chrono::nanoseconds took{0};
  };
  // Starts a thread; `snapshots` is where snapshots are kept.
  FolderState(std::filesystem::path folder, std::filesystem::path snapshots);
  // Waits for the thread; call once.
  [[nodiscard]] Found wait() { return m_found.get(); }

 private:
  std::future<Found> m_found;
};

// Tells the supervisor's limits in words, the machine, seeds and user; `git`, `image` and `notes` are the caller's to
// add.
[[nodiscard]] run::Circumstances circumstances_of(const Installation& installation, const machine::Machine& machine,
                                                  const run::RunSpec& spec, const sandbox::Support& support);

// All that a run needs, before anything of it exists.
struct PreparedRun {
  run::RunSpec spec;  // without an id
  run::Circumstances circumstances;
  std::optional<image::Image> image;  // none when the machine itself is the environment
  base::Fd store_in_use;              // keeps the image from being pruned until the run is on record
};

// For PreparedRun::store_in_use, before its image is looked for. Errors: permission, no_space.
[[nodiscard]] Result<base::Fd> use_store(const Installation& installation, Reporter& reporter);

// A run that was handed to its engine.
struct SubmittedRun {
  std::string id;
  run::RunSpec spec;
  std::optional<image::Image> image;
};

// Makes the record and hands it to the engine; quick, and from here on the run is there.
[[nodiscard]] Result<SubmittedRun> submit_run(const Installation& installation, PreparedRun prepared, Phases& phases,
                                              Reporter& reporter);

}  // namespace startrail::app
