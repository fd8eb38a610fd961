// How many CPUs and how much memory this process may use.
#pragma once

#include <vector>

#include "machine/linux/cgroups.hpp"
#include "machine/machine.hpp"

namespace startrail::machine {

// The affinity mask, cut by every CPU quota on the way up; at least 1, fractions rounded up.
[[nodiscard]] int usable_cpus(const HostPaths& paths, const std::vector<CgroupMount>& mounts);

struct Memory {
  Bytes total, available;
};
// The machine's memory, or the smallest limit of the groups around this process. What is available leaves
// out page cache that the group could give back (memory.stat's inactive_file), as the kernel's MemAvailable does.
[[nodiscard]] Memory usable_memory(const HostPaths& paths, const std::vector<CgroupMount>& mounts);

}  // namespace startrail::machine
