// What a run whose supervisor died may have left on this machine.
#pragma once

#include <filesystem>
#include <string>

#include "run/record.hpp"

namespace startrail::run {

// Whether there is something to remove, and it didn't prove impossible a short while ago.
[[nodiscard]] bool has_leftovers(const std::filesystem::path& run_directory, const RunSpec& spec);
// Ends processes that still carry the run's TRAIL_RUN_ID (only possible without isolation: a container's init dies with
// its supervisor), then removes cgroup, runtime state, scratch (unless it is to be kept) and temp. What can't be
// removed stays, and isn't tried again for a while.
void remove_leftovers(const std::filesystem::path& run_directory, const RunSpec& spec);

}  // namespace startrail::run
