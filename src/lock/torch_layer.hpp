// What sources that are compiled against torch see while they are built: the image of their own lock, without the
// packages that are yet to be built, the compiler of its CUDA, and a C++ compiler that this one accepts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/reporter.hpp"
#include "lock/source_wheel.hpp"
#include "machine/machine.hpp"

namespace startrail::lock {

inline constexpr const char* k_toolkit_inside = "/opt/startrail/cuda";

struct TorchLayer {
  std::vector<std::filesystem::path> layers;  // topmost first
  std::filesystem::path toolkit;              // for k_toolkit_inside; "" for a CPU build
  std::string site;                           // the image's site-packages, as seen inside
  base::Environment variables;                // CUDA_HOME, CC, MAX_JOBS, TORCH_CUDA_ARCH_LIST …
  std::vector<std::string> provided;          // packages that the image has, which the build must not bring again
  std::vector<std::string> tools;             // what the build gets beside what it declares
  std::vector<std::string> bounds;            // on those
};
// Errors: those of `torch_build`, `ensure_toolkit` and of making an image.
[[nodiscard]] Result<TorchLayer> torch_layer(const LockedPackage& package, const SourceBuild& build,
                                             const machine::Machine& machine, Reporter& reporter);

// "src/kernel.cu, line 12: identifier "x" is undefined", of the first error that a compiler told; "" for none.
[[nodiscard]] std::string first_compiler_error(std::string_view output);
// What can be done about it, "" when nothing is known.
[[nodiscard]] std::string compiler_advice(std::string_view output);

}  // namespace startrail::lock
