// Signals that ask a supervisor to end its run.
#pragma once

#include <chrono>

#include "base/error.hpp"

namespace startrail::supervise {

enum class Urgency { none, gracefully, at_once };

// Handlers rather than a mask or SIG_IGN: both would be inherited by the command. SIGHUP and SIGPIPE do nothing from
// here on. One per process.
[[nodiscard]] Result<void> catch_end_signals();
// Readable when a signal arrived since `end_urgency` was last asked.
[[nodiscard]] int end_signal_descriptor();
// The most urgent wish so far: SIGTERM gracefully; SIGINT or a second SIGTERM at once.
[[nodiscard]] Urgency end_urgency();

// While one lives, a signal that asks for the end, or the end of `patience`, kills this process's children: whoever
// waits for a runtime that hangs gets its end to see. For a process with one thread.
class StartWatch {
 public:
  explicit StartWatch(std::chrono::seconds patience);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  [[nodiscard]] static bool ran_out();
};

}  // namespace startrail::supervise
