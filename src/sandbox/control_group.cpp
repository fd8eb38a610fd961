#include "sandbox/control_group.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>
#include <vector>

#include "sandbox/bundle.hpp"

namespace startrail::sandbox {
namespace {

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{}) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_of(const fs::path& file) {
  const auto text = base::read_file(file);
  return text ? number_in(*text) : std::nullopt;
}

// "key value" lines (memory.stat, memory.events, memory.oom_control, pids.events).
std::uint64_t value_of(const fs::path& file, std::string_view key) {
  const auto text = base::read_file(file);
  if (!text) return 0;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return number_in(line.substr(key.size() + 1)).value_or(0);
  }
  return 0;
}

std::vector<pid_t> members(const fs::path& group) {
  std::vector<pid_t> result;
  const auto text = base::read_file(group / "cgroup.procs");
  if (!text) return result;
  for (std::size_t start = 0; start < text->size(); start = text->find('\n', start) + 1) {
    // 0 stands for a process of a PID namespace that this one can't see (cgroup_namespaces(7)); as a pid it would mean
    // this process's own group (kill(2)).
    const auto pid = number_in(std::string_view(*text).substr(start));
    if (pid && *pid > 0) result.push_back(static_cast<pid_t>(*pid));
    if (text->find('\n', start) == std::string::npos) break;
  }
  return result;
}

std::string below(const std::string& id) {
  return cgroup_path(id).substr(1);
}

// cgroup.kill (version 2, Linux 5.14) reaches all of them at once, those of other PID namespaces too.
void kill_members(const fs::path& group) {
  const base::Fd all(::open((group / "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (all.valid() && ::write(all.get(), "1", 1) == 1) return;
  for (const pid_t pid : members(group)) ::kill(pid, SIGKILL);
}

// A group is busy until the kernel has taken its last process apart, which follows the process's end.
void remove_group(const fs::path& group) {
  constexpr auto k_pause = std::chrono::milliseconds(5);
  constexpr int k_attempts = 400;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(group, ignored)) {
    if (entry.is_directory(ignored)) remove_group(entry.path());
  }
  for (int attempt = 0; attempt < k_attempts; ++attempt) {
    if (::rmdir(group.c_str()) == 0 || errno != EBUSY) return;
    kill_members(group);
    std::this_thread::sleep_for(k_pause);
  }
}

}  // namespace

std::optional<ControlGroup> ControlGroup::find(const std::string& id, const fs::path& hierarchy) {
  const std::string name = below(id);
  std::error_code ignored;
  if (const fs::path memory = hierarchy / "memory" / name; fs::is_directory(memory, ignored))
    return ControlGroup(Version::v1, memory, hierarchy / "pids" / name);
  if (const fs::path group = hierarchy / name; fs::exists(group / "cgroup.procs", ignored))
    return ControlGroup(Version::v2, group, group);
  return std::nullopt;
}

Bytes ControlGroup::memory_now() const {
  const bool first = m_version == Version::v1;
  const auto usage = number_of(m_memory / (first ? "memory.usage_in_bytes" : "memory.current")).value_or(0);
  const auto cache = value_of(m_memory / "memory.stat", first ? "total_inactive_file" : "inactive_file");
  return {usage > cache ? usage - cache : 0};
}

std::optional<Bytes> ControlGroup::peak_memory() const {
  // memory.peak came with Linux 5.19.
  const auto peak = number_of(m_memory / (m_version == Version::v1 ? "memory.max_usage_in_bytes" : "memory.peak"));
  return peak ? std::optional(Bytes{*peak}) : std::nullopt;
}

bool ControlGroup::out_of_memory_killed() const {
  return value_of(m_memory / (m_version == Version::v1 ? "memory.oom_control" : "memory.events"), "oom_kill") > 0;
}

bool ControlGroup::process_limit_hit() const {
  return value_of(m_processes / "pids.events", "max") > 0;
}

int ControlGroup::process_count() const {
  return static_cast<int>(members(m_processes).size());
}

void remove_control_group(const std::string& id, const fs::path& hierarchy) {
  std::error_code ignored;
  remove_group(hierarchy / below(id));
  for (const auto& entry : fs::directory_iterator(hierarchy, ignored)) {
    // Links (cpu → cpu,cpuacct) lead to a hierarchy that is listed itself.
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) remove_group(entry.path() / below(id));
  }
}

}  // namespace startrail::sandbox
