#include "machine/gpu/driver.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/process.hpp"
#include "machine/gpu/nvml.hpp"
#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

constexpr std::string_view k_version_file = "/proc/driver/nvidia/version";
constexpr std::string_view k_nvidia_vendor = "0x10de";  // PCI vendor id
constexpr std::string_view k_display_class = "0x03";    // PCI base class 03: display controllers

bool is_dotted_number(std::string_view word) {
  return word.find('.') != std::string_view::npos && word.find_first_not_of("0123456789.") == std::string_view::npos &&
         word.front() != '.' && word.back() != '.';
}

void note_gpus_without_driver(const HostPaths& paths, Machine& machine) {
  const auto addresses = pci_gpus(paths);
  if (addresses.empty()) return;
  machine.notes.push_back(fmt::format("{} on the PCI bus ({}), but no NVIDIA driver is loaded",
                                      addresses.size() == 1 ? "an NVIDIA GPU is" : "NVIDIA GPUs are",
                                      fmt::join(addresses, ", ")));
}

void note_failure(const NvmlFailure& failure, Machine& machine) {
  if (!machine.driver) return;
  const std::string& version = machine.driver->version;
  if (failure.status == NvmlStatus::library_version_mismatch)
    machine.notes.push_back(fmt::format(
        "driver {} is loaded but NVML says \"{}\": the driver was upgraded while it was running; reboot, or "
        "unload and load its kernel modules",
        version, failure.text));
  else if (failure.status == NvmlStatus::library_not_found)
    machine.notes.push_back(fmt::format("driver {} is loaded but its library can't be opened ({}): GPUs are unknown",
                                        version, failure.text));
  else
    machine.notes.push_back(
        fmt::format("driver {} is loaded but NVML says \"{}\": GPUs are unknown", version, failure.text));
}

// The kernel's file says that a driver runs; WSL has only the paravirtual device and the library.
bool may_have_driver(const HostPaths& paths, const Machine& machine) {
  std::error_code ignored;
  return machine.driver || fs::exists(at(paths, "/dev/dxg"), ignored);
}

void ask_nvml(const HostPaths& paths, Machine& machine) {
  const auto nvml = Nvml::open(paths.nvml_library);
  if (!nvml) return note_failure(nvml.error(), machine);
  if (!machine.driver) machine.driver = Driver{.version = nvml->driver_version(), .cuda = {}, .read_from = "NVML"};
  machine.driver->cuda = nvml->cuda_version();
  machine.gpus = nvml->gpus(machine.notes);
  if (const auto visible = base::environment_variable("CUDA_VISIBLE_DEVICES"))
    apply_visible_devices(*visible, machine.gpus);
}

}  // namespace

std::vector<std::string> pci_gpus(const HostPaths& paths) {
  std::vector<std::string> addresses;
  std::error_code failure;
  for (const auto& device : fs::directory_iterator(at(paths, "/sys/bus/pci/devices"), failure))
    if (trimmed(text_of(device.path() / "vendor")) == k_nvidia_vendor &&
        text_of(device.path() / "class").starts_with(k_display_class))
      addresses.push_back(device.path().filename().string());
  std::ranges::sort(addresses);
  return addresses;
}

std::string driver_version_in(std::string_view proc_text) {
  const auto line = field(proc_text, "NVRM version:");
  if (!line) return {};
  for (const auto word : words(*line))
    if (is_dotted_number(word)) return std::string(word);
  return {};
}

void survey_gpus(const HostPaths& paths, Depth depth, Machine& machine) {
  const std::string version = driver_version_in(text_of(at(paths, k_version_file)));
  if (!version.empty())
    machine.driver = Driver{.version = version, .cuda = {}, .read_from = std::string(k_version_file)};
  if (depth == Depth::full || may_have_driver(paths, machine)) ask_nvml(paths, machine);
  if (!machine.driver) note_gpus_without_driver(paths, machine);
}

void apply_visible_devices(std::string_view variable, std::vector<Gpu>& gpus) {
  for (auto& gpu : gpus) gpu.visible = false;
  for (const auto part : split(variable, ',')) {
    const auto word = trimmed(part);
    const auto index = number(word);
    const auto found = std::ranges::find_if(gpus, [&](const Gpu& gpu) {
      if (index) return static_cast<std::uint64_t>(gpu.index) == *index;
      return word.starts_with("GPU-") && gpu.uuid.starts_with(word);
    });
    if (found == gpus.end()) break;
    found->visible = true;
  }
}

}  // namespace startrail::machine
