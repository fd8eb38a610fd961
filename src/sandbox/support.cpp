#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/files.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {
namespace {

constexpr const char* k_way_without = "`trail run --isolation none` runs without a container, and the record says so";

// capabilities(7): bit 21, CAP_SYS_ADMIN, is what mounting and namespaces need. Root inside another container may lack
// it.
bool may_administer() {
  constexpr std::string_view k_field = "CapEff:\t";
  const auto status = base::read_file("/proc/self/status");
  if (!status) return false;
  const std::size_t at = status->find(k_field);
  if (at == std::string::npos) return false;
  std::uint64_t mask = 0;
  const char* digits = status->data() + at + k_field.size();
  std::from_chars(digits, status->data() + status->size(), mask, 16);
  return (mask >> 21U & 1U) != 0;
}

// crun refuses hybrid hierarchies; Container::start hides the second one from it, in its own mount namespace.
bool can_be_used(const machine::Runtime& runtime, const machine::Cgroups& cgroups) {
  return runtime.usable ||
         (runtime.name == "crun" && !runtime.program.empty() && cgroups.mode == machine::CgroupMode::hybrid);
}

// crun starts in a third of runc's time (docs/decisions/0005-isolation.md).
const machine::Runtime* pick_runtime(const machine::Machine& machine) {
  const machine::Runtime* best = nullptr;
  for (const auto& runtime : machine.runtimes) {
    if (can_be_used(runtime, machine.cgroups) && (best == nullptr || runtime.name == "crun")) best = &runtime;
  }
  return best;
}

Error no_runtime(const machine::Machine& machine) {
  Error error = base::error(ErrorCode::unsupported, "there is no OCI runtime here that can isolate a run");
  for (const auto& runtime : machine.runtimes)
    error.with_context(fmt::format("{} {}: {}", runtime.name, runtime.version, runtime.why_not));
  return error.with_hint("install one: `sudo apt install crun` (or runc)").with_hint(k_way_without);
}

Error no_user_namespaces(const machine::Machine& machine) {
  Error error = base::error(ErrorCode::unsupported, "this machine lets ordinary users make no containers");
  error.with_context(machine.user_namespaces.why_not.empty() ? "user namespaces are off"
                                                             : machine.user_namespaces.why_not);
  if (!machine.user_namespaces.how_to.empty()) error.with_hint(machine.user_namespaces.how_to);
  return error.with_hint("or call trail as root").with_hint(k_way_without);
}

Error root_in_a_container() {
  return base::error(ErrorCode::unsupported, "this root may not mount: it is probably root inside another container")
      .with_context("CAP_SYS_ADMIN is missing in /proc/self/status")
      .with_hint("start the outer container with `--cap-add SYS_ADMIN`")
      .with_hint(k_way_without);
}

}  // namespace

Result<Support> probe(const machine::Machine& machine) {
  const bool root = ::geteuid() == 0;
  if (root && !may_administer()) return fail(root_in_a_container());
  if (!root && !machine.user_namespaces.allowed) return fail(no_user_namespaces(machine));
  const machine::Runtime* runtime = pick_runtime(machine);
  if (runtime == nullptr) return fail(no_runtime(machine));
  const auto& controllers = machine.cgroups.controllers;
  Support support{.mode = root ? Mode::root : Mode::rootless,
                  .runtime = runtime->program,
                  .runtime_name = runtime->name,
                  .runtime_version = runtime->version};
  support.cgroup_limits = root && machine.cgroups.writable && std::ranges::count(controllers, "memory") > 0;
  support.limits_by = support.cgroup_limits
                          ? "limits by control group"
                          : "memory by the supervisor's watch, processes by RLIMIT_NPROC, CPUs by affinity: no control "
                            "group is delegated to this user";
  return support;
}

}  // namespace startrail::sandbox
