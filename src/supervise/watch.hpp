// The time between a command's start and its end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "run/run.hpp"
#include "sandbox/sandbox.hpp"
#include "supervise/end_signals.hpp"

namespace startrail::supervise {

// The read ends of the command's stdout and stderr.
struct Outputs {
  base::Fd output, errors;
};

struct WatchOptions {
  std::chrono::seconds grace{30};
  std::optional<Bytes> memory_limit;  // watched here; unset where the kernel enforces it
  bool isolated = true;               // else the descendants are all there is to watch and kill
  bool ends_at_once = false;          // nothing is to be waited for once the command has ended: its verdict follows
  std::function<void()> on_ending;    // once: the command was asked to end, or has ended and does not end at once
};

// How the command came to its end, and by whose doing.
struct WatchResult {
  sandbox::Ended ended;
  Urgency asked = Urgency::none;  // by a signal to the supervisor
  bool grace_ran_out = false;
  bool memory_limit_reached = false;  // found by the watch here
};

// Pumps the outputs into the log, ends the command when a signal asks for it or its memory goes over the limit, and
// returns after the last byte. One thread, no timer unless a limit is watched or a grace period runs.
[[nodiscard]] Result<WatchResult> watch(sandbox::Container& container, Outputs outputs, run::LogWriter& log,
                                        const WatchOptions& options);

}  // namespace startrail::supervise
