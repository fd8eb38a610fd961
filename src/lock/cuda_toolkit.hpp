// A CUDA compiler with its headers as one folder, as build scripts expect it at CUDA_HOME.
#pragma once

#include <filesystem>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "lock/source_wheel.hpp"
#include "lock/torch_build.hpp"
#include "machine/machine.hpp"

namespace startrail::lock {

// bin/nvcc, nvvm/, include/, lib64/ below a cache in state_root; made once from the toolkit's wheels and Debian
// package, about 300 MB. Safe to call from several processes at once. Errors: network, refused, unsupported (no
// sandbox), no_space.
[[nodiscard]] Result<std::filesystem::path> ensure_toolkit(const Toolkit& toolkit, const SourceBuild& build,
                                                           const machine::Machine& machine, Reporter& reporter);

}  // namespace startrail::lock
