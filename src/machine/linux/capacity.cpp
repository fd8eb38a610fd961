#include "machine/linux/capacity.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>

#include "base/files.hpp"
#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

// "0-3,8": the list format of cpuset(7).
int count_of_list(std::string_view list) {
  int count = 0;
  for (const auto part : split(trimmed(list), ',')) {
    const auto dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (first && last && *last >= *first) count += static_cast<int>(*last - *first + 1);
  }
  return count;
}

int affinity(const HostPaths& paths) {
  const std::string status = text_of(at(paths, "/proc/self/status"));
  if (const auto list = field(status, "Cpus_allowed_list:"))
    if (const int count = count_of_list(*list); count > 0) return count;
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// cpu.max: "200000 100000" or "max 100000"; v1 has the two numbers in files of their own, -1 for no quota.
std::optional<double> quota(const fs::path& group) {
  const std::string unified = text_of(group / "cpu.max");
  if (const auto parts = words(unified); parts.size() == 2) {
    const auto time = number(parts[0]);
    const auto period = number(parts[1]);
    if (time && period && *period > 0) return static_cast<double>(*time) / static_cast<double>(*period);
    return std::nullopt;
  }
  const auto time = number(text_of(group / "cpu.cfs_quota_us"));
  const auto period = number(text_of(group / "cpu.cfs_period_us"));
  if (time && period && *period > 0) return static_cast<double>(*time) / static_cast<double>(*period);
  return std::nullopt;
}

Bytes kibibytes(std::string_view meminfo, std::string_view key) {
  const auto value = field(meminfo, key);
  if (!value) return {};
  return {number(split(*value, ' ').front()).value_or(0) * 1024};
}

// What a limited group still has: the limit minus what can't be reclaimed.
std::optional<Bytes> left_in(const fs::path& group) {
  const auto limit = smallest_limit({group}, {.v1 = "memory.limit_in_bytes", .v2 = "memory.max"});
  auto usage = number(text_of(group / "memory.current"));
  if (!usage) usage = number(text_of(group / "memory.usage_in_bytes"));
  if (!limit || !usage) return std::nullopt;
  const std::string stat = text_of(group / "memory.stat");
  auto cache = field(stat, "total_inactive_file ");
  if (!cache) cache = field(stat, "inactive_file ");
  const auto reclaimable = cache ? number(*cache).value_or(0) : 0;
  const auto used = *usage > reclaimable ? *usage - reclaimable : 0;
  return Bytes{limit->count > used ? limit->count - used : 0};
}

}  // namespace

int usable_cpus(const HostPaths& paths, const std::vector<CgroupMount>& mounts) {
  double cpus = affinity(paths);
  for (const auto& group : bounding_groups(paths, mounts, "cpu"))
    if (const auto bound = quota(group)) cpus = std::min(cpus, *bound);
  return std::max(1, static_cast<int>(std::ceil(cpus)));
}

Memory usable_memory(const HostPaths& paths, const std::vector<CgroupMount>& mounts) {
  const std::string meminfo = text_of(at(paths, "/proc/meminfo"));
  Memory memory{.total = kibibytes(meminfo, "MemTotal:"), .available = kibibytes(meminfo, "MemAvailable:")};
  const auto groups = bounding_groups(paths, mounts, "memory");
  if (const auto limit = smallest_limit(groups, {.v1 = "memory.limit_in_bytes", .v2 = "memory.max"}))
    memory.total = std::min(memory.total, *limit);
  for (const auto& group : groups)
    if (const auto left = left_in(group)) memory.available = std::min(memory.available, *left);
  memory.available = std::min(memory.available, memory.total);
  return memory;
}

}  // namespace startrail::machine
