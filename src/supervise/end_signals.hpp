// Signals that ask a supervisor to end its run.
#pragma once

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

}  // namespace startrail::supervise
