// Facts about NVIDIA GPUs, their driver, and how containers and other machines reach them.
#pragma once

#include <vector>

#include "machine/host_facts.hpp"

namespace startrail::machine {

// Of a host without any NVIDIA device: none.
[[nodiscard]] std::vector<Fact> gpu_facts(const HostPaths& paths, const Machine& machine);

}  // namespace startrail::machine
