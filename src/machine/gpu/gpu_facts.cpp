#include "machine/gpu/gpu_facts.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "machine/gpu/driver.hpp"
#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

constexpr std::string_view k_nvml_stem = "libnvidia-ml.so.";

bool is_there(const HostPaths& paths, std::string_view path) {
  std::error_code ignored;
  return fs::exists(at(paths, path), ignored);
}

// The kernel driver that a PCI device is bound to: the name of what its "driver" link leads to.
std::string bound_driver(const fs::path& device) {
  std::error_code none;
  const fs::path target = fs::read_symlink(device / "driver", none);
  return none ? "none" : target.filename().string();
}

void add_cards(const HostPaths& paths, std::vector<Fact>& facts) {
  for (const std::string& address : pci_gpus(paths)) {
    const fs::path device = at(paths, "/sys/bus/pci/devices") / address;
    facts.push_back(
        {fmt::format("card.{}.driver", address), bound_driver(device), "/sys/bus/pci/devices/" + address + "/driver"});
  }
}

std::string version_in_name(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::string version = name.starts_with(k_nvml_stem) ? name.substr(k_nvml_stem.size()) : "";
  return version.find('.') == std::string::npos ? "" : version;
}

// The version of the driver's user-space library: of the file that the linker's name for it leads to, for a package
// may have left older ones beside it. A library that answered is right wherever it lies.
std::string library_version(const HostPaths& paths, const Machine& machine) {
  if (!machine.gpus.empty() && machine.driver) return machine.driver->version;
  std::string other = "none";
  for (const char* directory : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib64",
                                "/usr/lib64/nvidia", "/usr/lib/nvidia", "/usr/lib", "/usr/local/nvidia/lib64"}) {
    std::error_code failure;
    const fs::path linked = fs::canonical(at(paths, directory) / "libnvidia-ml.so.1", failure);
    if (const std::string version = failure ? "" : version_in_name(linked); !version.empty()) return version;
    for (const auto& entry : fs::directory_iterator(at(paths, directory), failure)) {
      const std::string version = version_in_name(entry.path());
      if (machine.driver && version == machine.driver->version) return version;
      if (!version.empty()) other = version;
    }
  }
  return other;
}

std::string node_state(const HostPaths& paths, const std::string& path) {
  struct stat status{};
  if (::stat(at(paths, path).c_str(), &status) != 0) return "missing";
  return fmt::format(
      "mode {:04o}, owner {}:{}, {}", status.st_mode & 07777U, status.st_uid, status.st_gid,
      ::access(at(paths, path).c_str(), R_OK | W_OK) == 0 ? "usable by this user" : "not usable by this user");
}

void add_nodes(const HostPaths& paths, const Machine& machine, std::vector<Fact>& facts) {
  std::vector<std::string> nodes{"/dev/nvidiactl", "/dev/nvidia-uvm"};
  for (const Gpu& gpu : machine.gpus) nodes.push_back(fmt::format("/dev/nvidia{}", gpu.minor_number));
  for (const std::string& node : nodes) facts.push_back({"node." + node, node_state(paths, node), node});
}

// The driver version that a CDI specification's library paths name.
std::string version_in_specification(std::string_view text) {
  const std::size_t place = text.find("libcuda.so.");
  if (place == std::string_view::npos) return "none";
  std::string_view rest = text.substr(place + std::string_view("libcuda.so.").size());
  rest = rest.substr(0, rest.find_first_not_of("0123456789."));
  while (rest.ends_with('.')) rest.remove_suffix(1);
  return rest.find('.') == std::string_view::npos ? "none" : std::string(rest);
}

void add_container_facts(const HostPaths& paths, std::vector<Fact>& facts) {
  for (const char* file : {"/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"})
    if (is_there(paths, file))
      facts.push_back(
          {"cdi.driver", fmt::format("{} in {}", version_in_specification(text_of(at(paths, file))), file), file});
  const auto program = [&](std::string_view name) {
    return is_there(paths, fmt::format("/usr/bin/{}", name)) || is_there(paths, fmt::format("/usr/local/bin/{}", name));
  };
  facts.push_back({"toolkit", program("nvidia-ctk") ? "present" : "none", "/usr/bin/nvidia-ctk"});
  for (const char* engine : {"docker", "podman"})
    if (program(engine)) facts.push_back({"engine", engine, fmt::format("/usr/bin/{}", engine)});
}

bool runs(const HostPaths& paths, std::string_view command) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(at(paths, "/proc"), failure))
    if (number(entry.path().filename().string()) && trimmed(text_of(entry.path() / "comm")) == command) return true;
  return false;
}

// NVSwitch machines need a service that sets the fabric up.
void add_fabric(const HostPaths& paths, std::vector<Fact>& facts) {
  if (!is_there(paths, "/dev/nvidia-nvswitchctl") && !is_there(paths, "/proc/driver/nvidia-nvswitch")) return;
  facts.push_back({"nvswitch", "present", "/dev/nvidia-nvswitchctl"});
  facts.push_back({"fabricmanager", runs(paths, "nv-fabricmanager") ? "running" : "not running", "/proc"});
}

// A GPU in MIG mode computes only through instances, each of which has a capability file.
void add_mig(const HostPaths& paths, const Machine& machine, std::vector<Fact>& facts) {
  for (const Gpu& gpu : machine.gpus) {
    if (!gpu.mig_enabled) continue;
    const std::string folder = fmt::format("/proc/driver/nvidia/capabilities/gpu{}/mig", gpu.minor_number);
    std::size_t instances = 0;
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(at(paths, folder), failure))
      instances += entry.path().filename().string().starts_with("gi") ? 1 : 0;
    facts.push_back({fmt::format("mig.{}.instances", gpu.index), fmt::format("{}", instances), folder});
  }
}

void add_infiniband(const HostPaths& paths, std::vector<Fact>& facts) {
  std::error_code failure;
  const std::string root = "/sys/class/infiniband";
  bool any = false;
  for (const auto& device : fs::directory_iterator(at(paths, root), failure)) {
    const std::string name = device.path().filename().string();
    for (const auto& port : fs::directory_iterator(device.path() / "ports", failure)) {
      any = true;
      const std::string number = port.path().filename().string();
      // "4: ACTIVE"
      facts.push_back({fmt::format("infiniband.{}.{}", name, number),
                       std::string(trimmed(text_of(port.path() / "state"))),
                       fmt::format("{}/{}/ports/{}/state", root, name, number)});
    }
  }
  rlimit limit{};
  if (!any || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
  facts.push_back({"memlock", limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} bytes", limit.rlim_cur),
                   "ulimit -l"});
}

}  // namespace

std::vector<Fact> gpu_facts(const HostPaths& paths, const Machine& machine) {
  std::vector<Fact> facts;
  add_cards(paths, facts);
  const bool loaded = machine.driver && machine.driver->read_from != "NVML";
  if (facts.empty() && !machine.driver) return facts;
  // The two are compared: they stand beside each other.
  facts.push_back({"driver.module", loaded ? machine.driver->version : "none", "/proc/driver/nvidia/version"});
  facts.push_back({"driver.library", library_version(paths, machine), "the library directories"});
  if (machine.driver)
    facts.push_back({"driver.cuda", machine.driver->cuda.empty() ? "none" : machine.driver->cuda, "NVML"});
  facts.push_back({"gpus", fmt::format("{}", machine.gpus.size()), "NVML"});
  if (loaded) add_nodes(paths, machine, facts);
  add_container_facts(paths, facts);
  add_fabric(paths, facts);
  add_mig(paths, machine, facts);
  add_infiniband(paths, facts);
  return facts;
}

}  // namespace startrail::machine
