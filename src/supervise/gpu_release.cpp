#include "supervise/gpu_release.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.hpp"

namespace startrail::supervise {
namespace {

constexpr std::chrono::milliseconds k_look_every{100};

bool is_in(const std::vector<machine::GpuProcess>& processes, const machine::GpuProcess& wanted) {
  return std::ranges::any_of(processes, [&](const machine::GpuProcess& process) {
    return process.pid == wanted.pid && process.gpu_index == wanted.gpu_index;
  });
}

// A process that is ending has no environment left to read.
bool belongs_to(const machine::GpuProcess& process, const std::string& run_id) {
  const auto environment = base::read_file(fmt::format("/proc/{}/environ", process.pid));
  if (!environment || environment->empty()) return true;
  return ('\0' + *environment).find('\0' + ("TRAIL_RUN_ID=" + run_id) + '\0') != std::string::npos;
}

std::string name_of(pid_t pid) {
  std::string name = base::read_file(fmt::format("/proc/{}/comm", pid)).value_or("unknown");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::vector<machine::GpuProcess> remaining(const machine::HostPaths& host, const std::vector<int>& gpus,
                                           const std::vector<machine::GpuProcess>& before, const std::string& run_id) {
  auto processes = gpu_holders(host, gpus);
  std::erase_if(processes, [&](const auto& process) { return is_in(before, process) || !belongs_to(process, run_id); });
  return processes;
}

}  // namespace

std::vector<machine::GpuProcess> gpu_holders(const machine::HostPaths& host, const std::vector<int>& gpus) {
  if (gpus.empty()) return {};
  auto processes = machine::gpu_processes(host);
  std::erase_if(processes,
                [&](const auto& process) { return std::ranges::find(gpus, process.gpu_index) == gpus.end(); });
  return processes;
}

std::vector<std::string> holders_after(const machine::HostPaths& host, const std::vector<int>& gpus,
                                       const std::vector<machine::GpuProcess>& before, const std::string& run_id,
                                       std::chrono::milliseconds patience) {
  if (gpus.empty()) return {};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  auto holders = remaining(host, gpus, before, run_id);
  while (!holders.empty() && std::chrono::steady_clock::now() < deadline) {
    ::usleep(std::chrono::duration_cast<std::chrono::microseconds>(k_look_every).count());
    holders = remaining(host, gpus, before, run_id);
  }
  std::vector<std::string> remarks;
  for (const auto& holder : holders)
    remarks.push_back(
        fmt::format("GPU {} still held by pid {} ({})", holder.gpu_index, holder.pid, name_of(holder.pid)));
  return remarks;
}

}  // namespace startrail::supervise
