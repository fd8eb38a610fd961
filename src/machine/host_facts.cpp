#include "machine/host_facts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.hpp"
#include "machine/gpu/gpu_facts.hpp"
#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

constexpr std::size_t k_most_messages = 1U << 20U;
constexpr int k_read_all = 3;  // syslog(2): SYSLOG_ACTION_READ_ALL

void add_room(const fs::path& folder, const std::string& name, const std::string& read_from, std::vector<Fact>& facts) {
  struct statvfs room{};
  fs::path there = folder;
  while (::statvfs(there.c_str(), &room) != 0) {
    if (!there.has_parent_path() || there == there.parent_path()) return;
    there = there.parent_path();
  }
  const std::uint64_t block = room.f_frsize;
  facts.push_back({name + ".size", fmt::format("{} bytes", room.f_blocks * block), read_from});
  facts.push_back({name + ".free", fmt::format("{} bytes", room.f_bavail * block), read_from});
  if (room.f_files > 0) facts.push_back({name + ".inodes_free", fmt::format("{}", room.f_favail), read_from});
}

// NTP's own word for it: the kernel's clock is unsynchronised until somebody disciplines it (adjtimex(2)).
void add_clock(const HostPaths& paths, std::vector<Fact>& facts) {
  if (paths.root != "/") return;
  const auto now = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  facts.push_back({"clock.year", fmt::format("{}", int(std::chrono::year_month_day(now).year())), "the clock"});
  timex state{};
  const int answer = ::adjtimex(&state);
  if (answer >= 0)
    facts.push_back({"clock.synchronised", answer == TIME_ERROR ? "no" : "yes", "the kernel (adjtimex)"});
}

void add_runtimes(const HostPaths& paths, const Machine& machine, std::vector<Fact>& facts) {
  std::error_code ignored;
  facts.push_back(
      {"package_manager", fs::exists(at(paths, "/usr/bin/apt-get"), ignored) ? "apt" : "unknown", "/usr/bin"});
  const bool usable = std::ranges::any_of(machine.runtimes, &Runtime::usable);
  facts.push_back({"runtime", usable ? "usable" : "none", "PATH"});
  for (const Runtime& runtime : machine.runtimes)
    facts.push_back(
        {"runtime." + runtime.name,
         runtime.usable ? runtime.version : fmt::format("{}, not usable: {}", runtime.version, runtime.why_not),
         runtime.program.string()});
}

void add_namespaces(const HostPaths& paths, const Machine& machine, std::vector<Fact>& facts) {
  facts.push_back(
      {"user_namespaces",
       machine.user_namespaces.allowed ? "allowed" : fmt::format("not allowed: {}", machine.user_namespaces.why_not),
       "the kernel"});
  if (!machine.user_namespaces.how_to.empty())
    facts.push_back({"user_namespaces.how", machine.user_namespaces.how_to, "the kernel"});
  if (trimmed(text_of(at(paths, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"))) == "1") {
    std::error_code ignored;
    facts.push_back({"apparmor.profile", fs::exists(at(paths, "/etc/apparmor.d/trail"), ignored) ? "installed" : "none",
                     "/etc/apparmor.d/trail"});
  }
}

void add_memory(const HostPaths& paths, const Machine& machine, std::vector<Fact>& facts) {
  facts.push_back({"memory", fmt::format("{} bytes", machine.memory.count), "/proc/meminfo and the control groups"});
  facts.push_back({"memory.available", fmt::format("{} bytes", machine.memory_available.count), "/proc/meminfo"});
  const std::string text = text_of(at(paths, "/proc/meminfo"));
  const auto kilobytes = [&](std::string_view key) {
    const auto line = field(text, key);
    return line && !words(*line).empty() ? number(words(*line).front()).value_or(0) : 0;
  };
  const std::uint64_t total = kilobytes("SwapTotal:"), free = kilobytes("SwapFree:");
  if (total > 0) facts.push_back({"swap.used", fmt::format("{} bytes", (total - free) * 1024), "/proc/meminfo"});
}

void add_limits(const HostPaths& paths, std::vector<Fact>& facts) {
  rlimit files{};
  if (paths.root == "/" && ::getrlimit(RLIMIT_NOFILE, &files) == 0)
    facts.push_back({"files.limit", fmt::format("{}", files.rlim_max), "ulimit -Hn"});
}

std::string ring_buffer() {
  std::string text(k_most_messages, '\0');
  const int count = ::klogctl(k_read_all, text.data(), static_cast<int>(text.size()));
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

// The end of a file that may be large.
std::string tail_of(const fs::path& file) {
  const auto fd = base::open_file(file, O_RDONLY);
  if (!fd) return "";
  const off_t size = ::lseek(fd->get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(k_most_messages));
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t count = ::pread(fd->get(), text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

}  // namespace

std::vector<Fact> host_facts(const HostPaths& paths, const Machine& machine, const fs::path& state_root) {
  std::vector<Fact> facts = gpu_facts(paths, machine);
  add_runtimes(paths, machine, facts);
  add_namespaces(paths, machine, facts);
  add_memory(paths, machine, facts);
  add_room(state_root, "disk", state_root.string(), facts);
  add_room(at(paths, "/dev/shm"), "shm", "/dev/shm", facts);
  add_limits(paths, facts);
  add_clock(paths, facts);
  return facts;
}

std::string kernel_messages(const HostPaths& paths) {
  if (paths.root == "/")
    if (std::string text = ring_buffer(); !text.empty()) return text;
  return tail_of(at(paths, "/var/log/kern.log"));
}

}  // namespace startrail::machine
