// `trail run`: from a folder to a run that can be submitted. Data moves one way: needs, machine, choice, lock, image,
// run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/installation.hpp"
#include "app/lock_project.hpp"
#include "app/phases.hpp"
#include "app/run_settings.hpp"
#include "app/submit_run.hpp"
#include "base/reporter.hpp"
#include "image/image.hpp"

namespace startrail::app {

enum class Isolation { automatic, none };
enum class TakeSnapshot { no, yes };

struct RunRequest {
  LockRequest project;                    // the folder, and how to lock it
  std::optional<std::string> image;       // --image: an id, a prefix, or "torch:2.6"; the project isn't locked then
  std::vector<std::string> command;       // empty: the project's own, if it has one
  std::optional<GpuRequest> gpus;         // else trail.toml, else all
  std::optional<Bytes> memory, shm_size;  // else trail.toml
  std::optional<double> cpus;
  std::optional<int> pids;
  std::optional<int> grace_seconds;
  base::Environment environment;  // over trail.toml's
  std::vector<sandbox::Mount> mounts;
  sandbox::Network network = sandbox::Network::host;
  Isolation isolation = Isolation::automatic;
  TakeSnapshot snapshot = TakeSnapshot::yes;
};

// Errors: those of lock_project, sandbox::probe and image::ensure; invalid_input when there is no command. Nothing is
// downloaded before the combination is known to work here.
[[nodiscard]] Result<PreparedRun> prepare_run(const Installation& installation, const RunRequest& request,
                                              Phases& phases, Reporter& reporter);

// The image of a lock, with what it costs shown before the first byte.
[[nodiscard]] Result<image::Image> ensure_image(const Installation& installation, const lock::Lock& lock,
                                                const std::filesystem::path& lock_directory,
                                                const machine::Machine& machine, Reporter& reporter);

}  // namespace startrail::app
