// The supervisor's own descendants: all there is to know a run's processes by, when no PID namespace holds them.
#pragma once

#include "base/units.hpp"

namespace startrail::supervise {

// Memory that would be free again without them: anonymous and shared pages of every descendant of this process.
// Pages that several of them share count once: where the plain sum is over `near`, each is weighed by its proportional
// set size, a walk over its page tables.
[[nodiscard]] Bytes memory_of_descendants(Bytes near);
// SIGKILL to everyone, generation by generation until nobody is left. This process must be a subreaper
// (prctl(2), PR_SET_CHILD_SUBREAPER), or orphans would escape.
void kill_descendants();

}  // namespace startrail::supervise
