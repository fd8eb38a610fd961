// The process that owns one run on one host: container, log, samples, verdicts, end.
#pragma once

#include <filesystem>

#include "base/error.hpp"

namespace startrail::supervise {

// Names the descriptor, in the environment, on which the supervisor says that the run's record bears its identity: one
// byte is written, then it is closed. Closed without a byte: it could not take the run over.
inline constexpr const char* k_ready_variable = "STARTRAIL_READY_DESCRIPTOR";

// The body of the hidden `trail supervise RUN_DIRECTORY` verb: reads spec.json, starts the container, owns it to the
// end. The process must be single-threaded; it becomes the leader of its own session and gives up its terminal.
// SIGTERM: graceful stop (TERM, grace, KILL). SIGINT or a second SIGTERM: KILL now. SIGHUP is ignored.
// Writes `supervisor.log`. Returns the process's exit code (0 also when the command failed: that is in state.json).
[[nodiscard]] int supervise_main(const std::filesystem::path& run_directory);

}  // namespace startrail::supervise
