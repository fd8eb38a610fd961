#include "sandbox/init_program.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "sandbox/seccomp_filter.hpp"

namespace startrail::sandbox {
namespace {

// A whole number of CPUs near the wanted share, spread over runs by their ids.
void choose_cpus(init::StartRequest& request, double wanted, const std::string& id) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < std::min<unsigned>(init::k_most_cpus, CPU_SETSIZE); ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  const auto count = static_cast<std::size_t>(std::max(1.0, std::ceil(wanted)));
  if (count >= cpus.size()) return;
  const std::size_t first = std::hash<std::string>{}(id) % cpus.size();
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned cpu = cpus[(first + i) % cpus.size()];
    request.cpus[cpu / 64] |= 1ULL << (cpu % 64);
  }
}

}  // namespace

Result<fs::path> init_program() {
  constexpr const char* k_name = "trail-init";
  if (const auto given = base::environment_variable("STARTRAIL_INIT")) return fs::path(*given);
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& place : {self / k_name, self / "../libexec/startrail" / k_name}) {
    if (::access(place.c_str(), X_OK) == 0) return place.lexically_normal();
  }
  return fail(base::error(ErrorCode::not_found, fmt::format("{} is not beside {}", k_name, self.string()))
                  .with_hint("install Startrail again, or build the target `trail-init`"));
}

Result<init::StartRequest> start_request(const Support& support, const ContainerSpec& spec, const Identity& identity) {
  init::StartRequest request;
  request.uid = identity.uid;
  request.gid = identity.gid;
  if (!support.cgroup_limits && spec.limits.cpus) choose_cpus(request, *spec.limits.cpus, spec.id);
  if (support.mode == Mode::none) {
    request.confinement = init::Confinement::none;
    return request;
  }
  if (support.mode == Mode::rootless) request.user_namespace = init::UserNamespace::own;
  if (!support.cgroup_limits && spec.limits.pids) request.process_limit = static_cast<std::uint64_t>(*spec.limits.pids);
  const auto filter = default_filter();
  if (filter.size() > init::k_longest_filter)
    return fail(ErrorCode::internal, fmt::format("a seccomp filter of {} instructions is too long", filter.size()));
  request.filter_length = static_cast<std::uint32_t>(filter.size());
  std::ranges::copy(filter, request.filter);
  return request;
}

std::size_t size_of(const init::StartRequest& request) {
  return offsetof(init::StartRequest, filter) + request.filter_length * sizeof(sock_filter);
}

}  // namespace startrail::sandbox
