#include "catalog/hardware.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "catalog/rows.hpp"
#include "machine/versions.hpp"

namespace startrail::catalog {
namespace {

struct Capability {
  unsigned long major = 0, minor = 0;
  auto operator<=>(const Capability&) const = default;
};

Capability capability(std::string_view text) {
  auto numbers = machine::version_numbers(text);
  numbers.resize(2);
  return {numbers[0], numbers[1]};
}

Capability capability(const machine::Gpu& gpu) {
  return {static_cast<unsigned long>(gpu.compute_major), static_cast<unsigned long>(gpu.compute_minor)};
}

std::string sm(std::string_view text) {
  const Capability value = capability(text);
  return fmt::format("sm_{}{}", value.major, value.minor);
}

}  // namespace

bool runs_on_the_cpu_anyway(const Combination& row) {
  return row.cpu_index.empty() && row.gpu_extra.empty() && row.gpu_wheels.empty();
}

Hardware hardware_of(const machine::Machine& machine) {
  Hardware hardware{.driver = machine.driver, .gpus = {}};
  if (!machine.driver) return hardware;
  for (const auto& gpu : machine.gpus)
    if (gpu.visible && gpu.compute_major > 0) hardware.gpus.push_back(gpu);
  return hardware;
}

bool covers(const Combination& row, const machine::Gpu& gpu) {
  const Capability wanted = capability(gpu);
  const bool kernel = std::ranges::any_of(row.architectures, [&](const std::string& text) {
    const Capability built = capability(text);
    return built.major == wanted.major && built.minor <= wanted.minor;
  });
  const bool within_reach = row.ptx_until.empty() || wanted <= capability(row.ptx_until);
  return kernel || (row.ptx && within_reach && capability(row.architectures.back()) <= wanted);
}

std::optional<Clash> clash_of(const Combination& row, const Hardware& hardware) {
  if (!hardware.driver || runs_on_the_cpu_anyway(row)) return std::nullopt;
  if (machine::older(hardware.driver->version, row.driver_floor)) return Clash{};
  for (const auto& gpu : hardware.gpus)
    if (!covers(row, gpu)) return Clash{.kind = ClashKind::architecture, .gpu = &gpu};
  return std::nullopt;
}

std::string shown_floor(const Combination& row, const machine::Driver& driver) {
  const std::string branch = row.driver_floor.substr(0, row.driver_floor.find('.'));
  return machine::version_numbers(driver.version).front() == machine::version_numbers(branch).front() ? row.driver_floor
                                                                                                      : branch;
}

std::string shown_architectures(const Combination& row) {
  if (row.architectures.size() == 1) return sm(row.architectures.front());
  return fmt::format("{} to {}", sm(row.architectures.front()), sm(row.architectures.back()));
}

Error clash_error(const Combination& row, std::string_view title, const Hardware& hardware, const Clash& clash,
                  std::string_view read_from) {
  if (clash.kind == ClashKind::driver)
    return base::error(ErrorCode::refused, fmt::format("{} needs NVIDIA driver {} or newer; this machine has {}", title,
                                                       shown_floor(row, *hardware.driver), hardware.driver->version))
        .with_context(fmt::format("read from {} and {}", read_from, hardware.driver->read_from));
  return base::error(
             ErrorCode::refused,
             fmt::format("{} has no kernels for GPU {}, {} ({}); its CUDA {} build covers {}", title, clash.gpu->index,
                         clash.gpu->name, clash.gpu->architecture(), row.cuda, shown_architectures(row)))
      .with_context(fmt::format("read from {} and NVML", read_from));
}

}  // namespace startrail::catalog
