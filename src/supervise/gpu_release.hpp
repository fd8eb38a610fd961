// Whether the GPUs' memory came back after a run.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

#include "machine/gpu/cdi.hpp"
#include "machine/machine.hpp"

namespace startrail::supervise {

// Who already held memory on the GPUs before the run began.
[[nodiscard]] std::vector<machine::GpuProcess> gpu_holders(const machine::HostPaths& host,
                                                           const std::vector<int>& gpus);

// Waits up to `patience` until no process of the run `run_id` holds memory on `gpus` any more, and names those that
// still do: "GPU 0 still held by pid 4711 (python)". A process is the run's when it carries its TRAIL_RUN_ID, or when
// its environment can't be read (it is ending), it wasn't there before, and it is `run_user`'s.
[[nodiscard]] std::vector<std::string> holders_after(const machine::HostPaths& host, const std::vector<int>& gpus,
                                                     const std::vector<machine::GpuProcess>& before,
                                                     const std::string& run_id, uid_t run_user,
                                                     std::chrono::milliseconds patience);

}  // namespace startrail::supervise
