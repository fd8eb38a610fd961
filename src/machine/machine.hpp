// What this host can do. Everything is read through HostPaths, so fixture trees stand in for hardware.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "base/units.hpp"

namespace startrail::machine {

// Where the host's facts are read. Tests (and STARTRAIL_HOST_ROOT, STARTRAIL_NVML in system tests) replace them.
struct HostPaths {
  std::filesystem::path root = "/";                // prefix of /proc, /sys, /dev, /etc, /usr/lib
  std::string nvml_library = "libnvidia-ml.so.1";  // name or path for dlopen
};
[[nodiscard]] HostPaths host_paths_from_environment();
// "/proc/meminfo" below the host's root.
[[nodiscard]] std::filesystem::path at(const HostPaths& paths, std::string_view absolute);

struct Driver {
  std::string version;    // "535.183.01"
  std::string cuda;       // newest CUDA it can run, "12.2" ("" when NVML isn't there)
  std::string read_from;  // "/proc/driver/nvidia/version" or "NVML"
};

struct Gpu {
  int index = 0;
  std::string uuid;
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  Bytes memory;
  std::string pci_address;  // "0000:01:00.0"
  int minor_number = 0;     // /dev/nvidia<minor>
  bool mig_enabled = false;
  bool visible =
      true;  // false when CUDA_VISIBLE_DEVICES of this call leaves it out (CUDA_DEVICE_ORDER=PCI_BUS_ID's order)
  [[nodiscard]] std::string architecture() const;        // "sm_90"
  [[nodiscard]] std::string compute_capability() const;  // "9.0"
};

struct Runtime {
  std::string name;  // "runc", "crun"
  std::filesystem::path program;
  std::string version;
  bool usable = false;
  std::string why_not;
};

enum class CgroupMode { none, v1, hybrid, v2 };

struct Cgroups {
  CgroupMode mode = CgroupMode::none;
  bool writable = false;                 // this caller can make groups with limits
  std::vector<std::string> controllers;  // those that can be used: "memory", "cpu", "pids"
  std::filesystem::path own;             // this process's group (v2), or "" on v1
};

struct UserNamespaces {
  bool allowed = false;
  std::string why_not;  // "kernel.apparmor_restrict_unprivileged_userns = 1 and no profile for trail"
  std::string how_to;   // the command that would allow them
};

struct Machine {
  std::string hostname, kernel, architecture;  // "x86_64"
  std::string os_id, os_version, os_name;      // "debian", "12", "Debian GNU/Linux 12 (bookworm)"
  std::string glibc;
  int cpus = 0;  // as affinity and cgroup allow, rounded up
  Bytes memory;  // as the cgroup allows
  Bytes memory_available;
  Bytes disk_free;  // where `state_root` lives
  std::optional<Driver> driver;
  std::vector<Gpu> gpus;
  std::vector<Runtime> runtimes;
  Cgroups cgroups;
  UserNamespaces user_namespaces;
  std::vector<std::string> notes;  // "driver 580 is loaded but NVML says driver/library version mismatch"
};

enum class Depth {
  full,   // everything
  quick,  // no programs started, no NVML unless /proc/driver/nvidia exists: the path of a warm run
};

// Never fails as a whole: what can't be read is absent, with a note. Takes under 50 ms without GPUs.
[[nodiscard]] Machine survey(const HostPaths& paths, const std::filesystem::path& state_root, Depth depth);

[[nodiscard]] Json to_json(const Machine& machine);

}  // namespace startrail::machine
