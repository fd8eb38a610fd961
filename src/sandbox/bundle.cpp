#include "sandbox/bundle.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/json.hpp"

namespace startrail::sandbox {
namespace {

Json strings(std::initializer_list<const char*> words) {
  Json list = Json::array();
  for (const char* word : words) list.push_back(word);
  return list;
}

Json mount_entry(const char* destination, const char* type, const char* source, Json options) {
  return {{"destination", destination}, {"type", type}, {"source", source}, {"options", std::move(options)}};
}

Json environment_list(const ContainerSpec& spec) {
  base::Environment environment = spec.environment;
  for (const auto& [key, value] : spec.gpus.environment) environment[key] = value;
  std::string libraries;
  for (const auto& directory : spec.gpus.library_directories) libraries += (libraries.empty() ? "" : ":") + directory;
  if (!libraries.empty()) {
    auto& path = environment["LD_LIBRARY_PATH"];
    path = path.empty() ? libraries : libraries + ":" + path;
  }
  Json list = Json::array();
  for (const auto& [key, value] : environment) list.push_back(key + "=" + value);
  return list;
}

// The runtime is a Go program, or not; either way the command gets the limits of this process, not its runtime's.
Json resource_limits() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return Json::array({{{"type", "RLIMIT_NOFILE"}, {"hard", files.rlim_max}, {"soft", files.rlim_cur}}});
}

Json process(const ContainerSpec& spec, Mode mode, const Identity& identity) {
  Json arguments = Json::array({k_init_inside});
  for (const auto& word : spec.argv) arguments.push_back(word);
  const Json nothing = Json::array();
  // Rootless, init needs one for a moment: only its holder may map the id 0 of its namespace into another
  // (user_namespaces(7), since Linux 5.12). Init gives it up before the command runs.
  const Json inits = mode == Mode::rootless ? Json::array({"CAP_SETFCAP"}) : nothing;
  // Rootless: 0 is the caller, in the only user namespace the runtime sees; init gives the command its own uid.
  const unsigned uid = mode == Mode::rootless ? 0 : identity.uid;
  const unsigned gid = mode == Mode::rootless ? 0 : identity.gid;
  return {{"terminal", false},
          {"user", {{"uid", uid}, {"gid", gid}}},
          {"args", std::move(arguments)},
          {"env", environment_list(spec)},
          {"cwd", spec.directory},
          {"capabilities",
           {{"bounding", inits},
            {"effective", inits},
            {"permitted", inits},
            {"inheritable", nothing},
            {"ambient", nothing}}},
          {"rlimits", resource_limits()},
          {"noNewPrivileges", true}};
}

Json mounts(const ContainerSpec& spec, const Support& support) {
  Json list = Json::array();
  list.push_back(mount_entry("/proc", "proc", "proc", strings({"nosuid", "noexec", "nodev"})));
  list.push_back(
      mount_entry("/dev", "tmpfs", "tmpfs", strings({"nosuid", "noexec", "strictatime", "mode=755", "size=65536k"})));
  Json terminals = strings({"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"});
  // Group 5 is Debian's tty; a rootless caller has no such gid to give.
  if (support.mode == Mode::root) terminals.push_back("gid=5");
  list.push_back(mount_entry("/dev/pts", "devpts", "devpts", std::move(terminals)));
  Json shared_memory = strings({"nosuid", "noexec", "nodev", "mode=1777"});
  shared_memory.push_back(fmt::format("size={}", shm_size(spec.limits).count));
  list.push_back(mount_entry("/dev/shm", "tmpfs", "shm", std::move(shared_memory)));
  list.push_back(mount_entry("/dev/mqueue", "mqueue", "mqueue", strings({"nosuid", "noexec", "nodev"})));
  if (!sys_from_host(support.mode, spec.network))
    list.push_back(mount_entry("/sys", "sysfs", "sysfs", strings({"nosuid", "noexec", "nodev", "ro"})));
  // Programs size their pools by the limits they read here (joblib, JVMs).
  if (support.cgroup_limits)
    list.push_back(
        mount_entry("/sys/fs/cgroup", "cgroup", "cgroup", strings({"nosuid", "noexec", "nodev", "relatime", "ro"})));
  if (support.mode == Mode::rootless) {
    for (const auto& device : spec.gpus.devices)
      list.push_back(
          mount_entry(device.path.c_str(), "bind", device.host_path.c_str(), strings({"bind", "nosuid", "noexec"})));
  }
  return list;
}

Json namespaces(const ContainerSpec& spec) {
  Json list = Json::array();
  for (const char* type : {"pid", "ipc", "uts", "mount", "cgroup"}) list.push_back({{"type", type}});
  if (spec.network == Network::none) list.push_back({{"type", "network"}});
  return list;
}

Json gpu_devices(const ContainerSpec& spec) {
  Json list = Json::array();
  for (const auto& device : spec.gpus.devices)
    list.push_back({{"path", device.path},
                    {"type", "c"},
                    {"major", device.major},
                    {"minor", device.minor},
                    {"fileMode", 0666},
                    {"uid", 0},
                    {"gid", 0}});
  return list;
}

// Without swap accounting the file is missing and the runtime would refuse a swap limit.
bool swap_is_limited() {
  return ::access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ||
         ::access("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", F_OK) == 0;
}

Json resources(const ContainerSpec& spec) {
  constexpr int k_period_us = 100000;
  Json result = {{"devices", Json::array({{{"allow", false}, {"access", "rwm"}}})}};
  for (const auto& device : spec.gpus.devices)
    result["devices"].push_back(
        {{"allow", true}, {"type", "c"}, {"major", device.major}, {"minor", device.minor}, {"access", "rw"}});
  if (spec.limits.memory) {
    result["memory"]["limit"] = spec.limits.memory->count;
    if (swap_is_limited()) result["memory"]["swap"] = spec.limits.memory->count;
  }
  if (spec.limits.cpus)
    result["cpu"] = {{"period", k_period_us}, {"quota", std::llround(*spec.limits.cpus * k_period_us)}};
  if (spec.limits.pids) result["pids"]["limit"] = *spec.limits.pids;
  return result;
}

// A folder among these gets an empty read-only filesystem over it. The host's /sys would tell about every service, user
// and container of the host.
Json masked_paths(const ContainerSpec& spec, const Support& support) {
  Json list =
      strings({"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
               "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
               "/sys/devices/virtual/powercap", "/sys/firmware", "/sys/kernel/debug", "/sys/kernel/tracing"});
  if (sys_from_host(support.mode, spec.network)) list.push_back("/sys/fs/cgroup");
  return list;
}

}  // namespace

Bytes shm_size(const Limits& limits) {
  if (limits.shm_size.count != 0) return limits.shm_size;
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const Bytes whole{pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
  return {std::min(limits.memory.value_or(whole), whole).count / 2};
}

std::string cgroup_path(const std::string& id) {
  return "/startrail/" + id;
}

Json runtime_configuration(const ContainerSpec& spec, const Support& support, const Identity& identity,
                           const fs::path& root) {
  Json linux_part = {
      {"namespaces", namespaces(spec)},
      {"maskedPaths", masked_paths(spec, support)},
      {"readonlyPaths", strings({"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"})}};
  if (support.mode == Mode::root) linux_part["devices"] = gpu_devices(spec);
  if (support.cgroup_limits) {
    linux_part["cgroupsPath"] = cgroup_path(spec.id);
    linux_part["resources"] = resources(spec);
  }
  return {{"ociVersion", "1.0.2"},
          {"process", process(spec, support.mode, identity)},
          {"root", {{"path", root.string()}, {"readonly", false}}},
          {"hostname", spec.hostname},
          {"mounts", mounts(spec, support)},
          {"linux", std::move(linux_part)}};
}

}  // namespace startrail::sandbox
