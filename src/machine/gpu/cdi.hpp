// GPUs in containers: the edits of the Container Device Interface, computed from the host.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "machine/machine.hpp"

namespace startrail::machine {

struct DeviceNode {
  std::string path;  // inside, "/dev/nvidia0"
  std::filesystem::path host_path;
  unsigned major = 0, minor = 0;
};

struct DriverFile {
  std::filesystem::path host_path;
  std::string container_path;
};

// CDI specification 0.6, containerEdits: no hooks (nothing the image controls may run on the host).
struct CdiEdits {
  std::vector<DeviceNode> devices;
  std::vector<DriverFile> mounts;                // driver libraries, nvidia-smi, persistence socket; read-only
  std::vector<std::string> library_directories;  // for ld.so: added to LD_LIBRARY_PATH inside
  std::vector<std::pair<std::string, std::string>> environment;  // NVIDIA_VISIBLE_DEVICES=void
};

// Devices and driver files for these GPUs (indexes as in Machine::gpus).
// Errors: not_found (no driver, a node or library is missing: names it and the fix), invalid_input (no such GPU).
[[nodiscard]] Result<CdiEdits> cdi_edits(const HostPaths& paths, const Machine& machine, const std::vector<int>& gpus);

struct GpuProcess {
  int gpu_index = 0;
  pid_t pid = 0;
  Bytes memory;
};
// Compute processes on all GPUs, host pids. Empty when there is no NVML.
[[nodiscard]] std::vector<GpuProcess> gpu_processes(const HostPaths& paths);

}  // namespace startrail::machine
