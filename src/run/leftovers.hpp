// What a run whose supervisor died may have left on this machine.
#pragma once

#include <filesystem>
#include <string>

#include "run/record.hpp"

namespace startrail::run {

// Ends processes that still carry the run's TRAIL_RUN_ID (only possible without isolation: a container's init dies with
// its supervisor), then removes cgroup, runtime state, scratch and temp. What can't be removed stays.
void remove_leftovers(const std::filesystem::path& run_directory, const RunSpec& spec);

}  // namespace startrail::run
