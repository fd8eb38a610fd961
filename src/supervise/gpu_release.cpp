#include "supervise/gpu_release.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "base/files.hpp"

namespace startrail::supervise {
namespace {

constexpr std::chrono::milliseconds k_look_every{100};

bool is_in(const std::vector<machine::GpuProcess>& processes, const machine::GpuProcess& wanted) {
  return std::ranges::any_of(processes, [&](const machine::GpuProcess& process) {
    return process.pid == wanted.pid && process.gpu_index == wanted.gpu_index;
  });
}

// "Uid:\t1000\t1000\t1000\t1000" of proc(5), not the owner of the folder: that is root for whoever isn't dumpable.
std::optional<uid_t> user_of(pid_t pid) {
  const std::string status = base::read_file(fmt::format("/proc/{}/status", pid)).value_or("");
  const auto at = status.find("\nUid:");
  if (at == std::string::npos) return std::nullopt;
  return static_cast<uid_t>(std::strtoul(status.c_str() + at + 5, nullptr, 10));
}

// A process that is ending has no environment left to read; neither has one of somebody else's.
bool may_be_ending(pid_t pid, uid_t run_user) {
  if (const auto user = user_of(pid)) return *user == run_user;
  // Out of /proc: dead, or hidden from us (hidepid).
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

struct Owner {
  const std::string& run_id;
  uid_t user;
};

bool belongs_to(const machine::GpuProcess& process, const Owner& owner) {
  const auto environment = base::read_file(fmt::format("/proc/{}/environ", process.pid));
  if (!environment || environment->empty()) return may_be_ending(process.pid, owner.user);
  return ('\0' + *environment).find('\0' + ("TRAIL_RUN_ID=" + owner.run_id) + '\0') != std::string::npos;
}

std::string name_of(pid_t pid) {
  std::string name = base::read_file(fmt::format("/proc/{}/comm", pid)).value_or("unknown");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

std::vector<machine::GpuProcess> remaining(const machine::HostPaths& host, const std::vector<int>& gpus,
                                           const std::vector<machine::GpuProcess>& before, const Owner& owner) {
  auto processes = gpu_holders(host, gpus);
  std::erase_if(processes, [&](const auto& process) { return is_in(before, process) || !belongs_to(process, owner); });
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
                                       uid_t run_user, std::chrono::milliseconds patience) {
  if (gpus.empty()) return {};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const Owner owner{run_id, run_user};
  auto holders = remaining(host, gpus, before, owner);
  while (!holders.empty() && std::chrono::steady_clock::now() < deadline) {
    ::usleep(std::chrono::duration_cast<std::chrono::microseconds>(k_look_every).count());
    holders = remaining(host, gpus, before, owner);
  }
  std::vector<std::string> remarks;
  for (const auto& holder : holders)
    remarks.push_back(
        fmt::format("GPU {} still held by pid {} ({})", holder.gpu_index, holder.pid, name_of(holder.pid)));
  return remarks;
}

}  // namespace startrail::supervise
