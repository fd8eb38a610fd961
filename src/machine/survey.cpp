#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include "base/files.hpp"
#include "machine/gpu/driver.hpp"
#include "machine/linux/capacity.hpp"
#include "machine/linux/cgroups.hpp"
#include "machine/linux/user_namespaces.hpp"
#include "machine/machine.hpp"
#include "machine/runtimes.hpp"
#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

// os-release(5): KEY=value, the value possibly quoted as in a shell.
std::string os_release_value(std::string_view text, std::string_view key) {
  auto value = field(text, key).value_or("");
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front())
    value = value.substr(1, value.size() - 2);
  return std::string(value);
}

void survey_system(const HostPaths& paths, Machine& machine) {
  utsname system{};
  ::uname(&system);
  machine.hostname = system.nodename;
  machine.kernel = system.release;
  machine.architecture = system.machine;
  std::string release = text_of(at(paths, "/etc/os-release"));
  if (release.empty()) release = text_of(at(paths, "/usr/lib/os-release"));
  machine.os_id = os_release_value(release, "ID=");
  machine.os_version = os_release_value(release, "VERSION_ID=");
  machine.os_name = os_release_value(release, "PRETTY_NAME=");
  machine.glibc = ::gnu_get_libc_version();
}

}  // namespace

Machine survey(const HostPaths& paths, const fs::path& state_root, Depth depth) {
  Machine machine;
  survey_system(paths, machine);
  const auto mounts = cgroup_mounts(paths);
  machine.cpus = usable_cpus(paths, mounts);
  const Memory memory = usable_memory(paths, mounts);
  machine.memory = memory.total;
  machine.memory_available = memory.available;
  if (memory.total.count == 0) machine.notes.emplace_back("/proc/meminfo can't be read: the size of memory is unknown");
  if (auto free = base::free_space(state_root))
    machine.disk_free = *free;
  else
    machine.notes.push_back(fmt::format("free disk space is unknown: {}", free.error().message));
  machine.cgroups = survey_cgroups(paths, mounts);
  machine.user_namespaces = survey_user_namespaces(paths);
  machine.runtimes = survey_runtimes(state_root, machine.cgroups.mode, depth);
  survey_gpus(paths, depth, machine);
  return machine;
}

}  // namespace startrail::machine
