// The process that owns one run on one host: container, log, samples, verdicts, end.
#pragma once

#include <filesystem>

#include "base/error.hpp"

namespace startrail::supervise {

// The body of the hidden `trail supervise RUN_DIRECTORY` verb: reads spec.json and plan.json, starts the container, owns it to the end.
// SIGTERM: graceful stop (TERM, grace, KILL). SIGINT or a second SIGTERM: KILL now. SIGHUP is ignored.
// Writes `supervisor.log`. Returns the process's exit code (0 also when the command failed: that is in state.json).
[[nodiscard]] int supervise_main(const std::filesystem::path& run_directory);

}  // namespace startrail::supervise
