// The supervisor's own descendants: all there is to know a run's processes by, when no PID namespace holds them.
#pragma once

#include "base/units.hpp"

namespace startrail::supervise {

// Memory that would be free again without them: anonymous and shared pages of every descendant of this process. Pages
// that forked processes still share count once for each.
[[nodiscard]] Bytes memory_of_descendants();
// SIGKILL to everyone, generation by generation until nobody is left. This process must be a subreaper
// (prctl(2), PR_SET_CHILD_SUBREAPER), or orphans would escape.
void kill_descendants();

}  // namespace startrail::supervise
