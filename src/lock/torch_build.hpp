// Sources that are compiled against torch: which they are, and with what. The facts are in catalog/builds/cuda.toml.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "lock/lock.hpp"
#include "machine/machine.hpp"

namespace startrail::lock {

// A package whose build imports torch.
struct TorchPackage {
  std::string name;
  std::vector<std::string> requirements;  // what it needs when it runs, as far as known before it is built
  std::vector<std::string> tools;         // what its build imports beside torch and the usual tools
};
// nullptr for a name that the catalog doesn't have.
[[nodiscard]] const TorchPackage* torch_package(std::string_view name);

// One CUDA compiler, and how its folder is put together.
struct Toolkit {
  std::string cuda;                          // "12.4"
  int newest_gcc = 0;                        // that it accepts as host compiler
  std::string glibc;                         // that its programs need
  std::vector<std::string> wheels;           // pinned requirements
  std::string debian_suite, debian_package;  // what the wheels lack; "" when they lack nothing
  std::string oldest, newest;                // compute capabilities that it has code for
};
[[nodiscard]] const std::vector<Toolkit>& toolkits();
// The one of this CUDA; else the newest that isn't newer, else the oldest, of the same major version: within one, code
// compiled by any runs with the libraries of any (CUDA Compatibility, "Minor Version Compatibility"). nullptr: none.
[[nodiscard]] const Toolkit* toolkit_for(std::string_view cuda);

// The newest compiler of the suite that this toolkit accepts: its major version; 0 when the suite has none.
[[nodiscard]] int host_compiler(const Toolkit& toolkit, std::string_view suite);

// How the sources of one image are compiled. Everything here is part of the result's key.
struct TorchBuild {
  const Toolkit* toolkit = nullptr;        // nullptr: a CPU build, without CUDA
  int gcc = 0;                             // 0: the suite's own
  std::vector<std::string> packages;       // Debian packages for the build only: "g++-11"
  std::vector<std::string> architectures;  // as TORCH_CUDA_ARCH_LIST has them: "8.6", "9.0+PTX"
  std::string identity;                    // one text of all that decides the wheel beside its sources
};
// `lock` is complete. Errors: refused (no torch in it, no compiler for its CUDA or on its suite), with ways out.
[[nodiscard]] Result<TorchBuild> torch_build(const Lock& lock);

// `told` by the project; else those of the machine's GPUs; without any, those that the locked torch has kernels for.
// Sorted, no duplicates.
[[nodiscard]] std::vector<std::string> build_architectures(const machine::Machine& machine, const Lock& lock,
                                                           const std::vector<std::string>& told = {});

// Some visible GPU of this machine can't run what the lock's sources were compiled for: one clause that says so.
[[nodiscard]] std::optional<std::string> compiled_for_others(const Lock& lock, const machine::Machine& machine);

[[nodiscard]] bool is_built_with_torch(const Lock& lock, std::string_view package);

// One compiler of CUDA code takes up to 4 GB.
[[nodiscard]] int compile_jobs(Bytes memory, int cpus);

}  // namespace startrail::lock
