#include "machine/gpu/cdi.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/files.hpp"
#include "machine/gpu/driver_files.hpp"
#include "machine/gpu/nvml.hpp"
#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

enum class Need { required, optional };

struct Node {
  std::string path;
  std::vector<std::string_view> kernel_names;  // in /proc/devices, newest first
  unsigned minor = 0;
  Need need = Need::required;
};

// Fixed minors of the driver's control nodes: nv-frontend (255, 254) and nvidia-uvm (0, 1).
std::vector<Node> control_nodes() {
  return {{"/dev/nvidiactl", {"nvidia", "nvidiactl", "nvidia-frontend"}, 255, Need::required},
          {"/dev/nvidia-uvm", {"nvidia-uvm"}, 0, Need::required},
          {"/dev/nvidia-uvm-tools", {"nvidia-uvm"}, 1, Need::optional},
          {"/dev/nvidia-modeset", {"nvidia-modeset", "nvidia", "nvidia-frontend"}, 254, Need::optional}};
}

// "195 nvidia" in the character half of /proc/devices.
std::optional<unsigned> major_number(std::string_view devices, const std::vector<std::string_view>& names) {
  for (const auto name : names)
    for (const auto line : lines(devices)) {
      const auto parts = words(line);
      if (parts.size() == 2 && parts[1] == name)
        if (const auto value = number(parts[0])) return static_cast<unsigned>(*value);
    }
  return std::nullopt;
}

Error missing_node(const std::string& path) {
  return base::error(ErrorCode::not_found, fmt::format("the driver is loaded, but {} is not there", path))
      .with_hint(
          "`sudo nvidia-modprobe -u -c=0` makes the driver's device nodes (so does running nvidia-smi once as root)");
}

// A real node's own numbers; elsewhere (a fixture tree) those that the kernel's table gives.
Result<std::optional<DeviceNode>> find_node(const HostPaths& paths, std::string_view devices, const Node& node) {
  const fs::path host = at(paths, node.path);
  struct stat status{};
  if (::stat(host.c_str(), &status) != 0) {
    if (node.need == Need::optional) return std::nullopt;
    return fail(missing_node(node.path));
  }
  if (S_ISCHR(status.st_mode))
    return DeviceNode{node.path, host, gnu_dev_major(status.st_rdev), gnu_dev_minor(status.st_rdev)};
  const auto major = major_number(devices, node.kernel_names);
  if (paths.root == "/" || !major)
    return fail(ErrorCode::not_found, fmt::format("{} is not the driver's device node", node.path));
  return DeviceNode{node.path, host, *major, node.minor};
}

// MIG instances are opened through capability nodes, whose minors stand in the driver's "access" files:
// /proc/driver/nvidia/capabilities/gpuN/mig/giN/[ciN/]access, "DeviceFileMinor: 21".
std::vector<Node> mig_nodes(const HostPaths& paths, int gpu_minor) {
  std::vector<Node> nodes;
  const fs::path root = at(paths, fmt::format("/proc/driver/nvidia/capabilities/gpu{}/mig", gpu_minor));
  std::error_code failure;
  for (const auto& entry : fs::recursive_directory_iterator(root, failure)) {
    if (entry.path().filename() != "access") continue;
    const std::string text = text_of(entry.path());
    const auto minor = number(field(text, "DeviceFileMinor:").value_or(""));
    if (!minor) continue;
    nodes.push_back({fmt::format("/dev/nvidia-caps/nvidia-cap{}", *minor),
                     {"nvidia-caps"},
                     static_cast<unsigned>(*minor),
                     Need::required});
  }
  std::ranges::sort(nodes, {}, &Node::minor);
  return nodes;
}

Result<const Gpu*> gpu_with(const Machine& machine, int index) {
  const auto found = std::ranges::find(machine.gpus, index, &Gpu::index);
  if (found != machine.gpus.end()) return &*found;
  return fail(base::error(ErrorCode::invalid_input,
                          fmt::format("there is no GPU {} here; this machine has {}", index, machine.gpus.size()))
                  .with_hint("`trail doctor` lists the GPUs"));
}

Result<std::vector<DeviceNode>> device_nodes(const HostPaths& paths, const std::vector<const Gpu*>& gpus) {
  const std::string devices = text_of(at(paths, "/proc/devices"));
  std::vector<Node> wanted;
  for (const Gpu* gpu : gpus)
    wanted.push_back({fmt::format("/dev/nvidia{}", gpu->minor_number),
                      {"nvidia", "nvidia-frontend"},
                      static_cast<unsigned>(gpu->minor_number),
                      Need::required});
  for (auto& node : control_nodes()) wanted.push_back(std::move(node));
  for (const Gpu* gpu : gpus)
    if (gpu->mig_enabled)
      for (auto& node : mig_nodes(paths, gpu->minor_number)) wanted.push_back(std::move(node));
  std::vector<DeviceNode> nodes;
  for (const auto& node : wanted)
    if (auto found = TRY(find_node(paths, devices, node))) nodes.push_back(std::move(*found));
  return nodes;
}

// WSL gives one paravirtual device for all GPUs, and a folder with the Windows driver's libraries.
Result<std::vector<DeviceNode>> wsl_nodes(const HostPaths& paths) {
  const fs::path host = at(paths, "/dev/dxg");
  struct stat status{};
  if (::stat(host.c_str(), &status) != 0) return fail(missing_node("/dev/dxg"));
  return std::vector{DeviceNode{"/dev/dxg", host, gnu_dev_major(status.st_rdev), gnu_dev_minor(status.st_rdev)}};
}

bool is_wsl(const HostPaths& paths) {
  std::error_code ignored;
  return fs::exists(at(paths, "/dev/dxg"), ignored) && !fs::exists(at(paths, "/dev/nvidiactl"), ignored);
}

}  // namespace

Result<CdiEdits> cdi_edits(const HostPaths& paths, const Machine& machine, const std::vector<int>& gpus) {
  CdiEdits edits;
  if (gpus.empty()) return edits;
  if (!machine.driver)
    return fail(base::error(ErrorCode::not_found, "GPUs were asked for, but no NVIDIA driver is loaded on this machine")
                    .with_context("/proc/driver/nvidia/version is not there, and NVML can't be opened")
                    .with_hint("install the driver, or run with `--gpus 0`"));
  std::vector<const Gpu*> chosen;
  for (const int index : gpus) chosen.push_back(TRY(gpu_with(machine, index)));
  edits.devices = is_wsl(paths) ? TRY(wsl_nodes(paths)) : TRY(device_nodes(paths, chosen));
  edits.mounts = TRY(driver_libraries(paths, machine.driver->version));
  for (auto& file : driver_programs(paths)) edits.mounts.push_back(std::move(file));
  std::error_code missing;
  if (const fs::path drivers = at(paths, "/usr/lib/wsl/drivers"); is_wsl(paths) && fs::is_directory(drivers, missing))
    edits.mounts.push_back({.host_path = drivers, .container_path = "/usr/lib/wsl/drivers"});
  edits.library_directories.emplace_back(k_container_library_directory);
  // "void": an NVIDIA-aware runtime below must add nothing of its own (NVIDIA Container Toolkit, environment
  // variables).
  edits.environment.emplace_back("NVIDIA_VISIBLE_DEVICES", "void");
  return edits;
}

std::vector<GpuProcess> gpu_processes(const HostPaths& paths) {
  const auto nvml = Nvml::open(paths.nvml_library);
  return nvml ? nvml->processes() : std::vector<GpuProcess>{};
}

}  // namespace startrail::machine
