// Does a combination run on this machine's driver and GPUs, and if not, why?
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.hpp"
#include "machine/machine.hpp"

namespace startrail::catalog {

// What limits a GPU build here. Without a driver nothing does: the build then runs on the CPU.
struct Hardware {
  std::optional<machine::Driver> driver;
  std::vector<machine::Gpu> gpus;  // visible ones whose architecture is known
};
[[nodiscard]] Hardware hardware_of(const machine::Machine& machine);

enum class ClashKind { driver, architecture };
struct Clash {
  ClashKind kind = ClashKind::driver;
  const machine::Gpu* gpu = nullptr;  // of an architecture clash
};

// A kernel for X.y runs on GPUs X.z with z ≥ y; PTX of the newest architecture is compiled for newer GPUs
// (CUDA C++ programming guide, "Binary compatibility" and "PTX compatibility"), as far as the row's libraries go:
// cuDNN is forward compatible with newer GPUs from 9.0 on only (cuDNN's support matrix).
[[nodiscard]] bool covers(const Combination& row, const machine::Gpu& gpu);

// The first thing that keeps the row from running; nullopt when it runs, or when it brings no GPU libraries and
// runs on the CPU anyway.
[[nodiscard]] std::optional<Clash> clash_of(const Combination& row, const Hardware& hardware);

// Its wheel runs on the CPU until an extra or other wheels bring the GPU libraries, and it has neither.
[[nodiscard]] bool runs_on_the_cpu_anyway(const Combination& row);

// What the kernel driver would have to be: "580", or all of "525.60.13" when the branch is right but too early.
[[nodiscard]] std::string shown_floor(const Combination& row, const machine::Driver& driver);

// "sm_37 to sm_70", for messages.
[[nodiscard]] std::string shown_architectures(const Combination& row);

// "torch 2.13 needs NVIDIA driver 580 or newer; this machine has 535.183" and its like, with `read_from` and the
// place of the machine's side as context. Hints are the caller's.
[[nodiscard]] Error clash_error(const Combination& row, std::string_view title, const Hardware& hardware,
                                const Clash& clash, std::string_view read_from);

}  // namespace startrail::catalog
