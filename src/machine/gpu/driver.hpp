// The NVIDIA driver and its GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.hpp"

namespace startrail::machine {

// The version in /proc/driver/nvidia/version ("NVRM version: NVIDIA UNIX … 535.183.01 …"); "" when there is none.
[[nodiscard]] std::string driver_version_in(std::string_view proc_text);

// NVIDIA's display controllers on the PCI bus, by address ("0000:01:00.0"), in their order; also without a driver.
[[nodiscard]] std::vector<std::string> pci_gpus(const HostPaths& paths);

// Fills driver, gpus and what is odd about them in notes.
void survey_gpus(const HostPaths& paths, Depth depth, Machine& machine);

// CUDA's rule for CUDA_VISIBLE_DEVICES: indexes or UUID prefixes, all after the first invalid one are ignored
// (CUDA programming guide, "CUDA environment variables"). Indexes count in PCI order here, as NVML does.
void apply_visible_devices(std::string_view variable, std::vector<Gpu>& gpus);

}  // namespace startrail::machine
