#include "supervise/descendants.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <string_view>
#include <vector>

#include "base/files.hpp"

namespace startrail::supervise {
namespace {

constexpr int k_rounds = 200;  // each ends one generation; a fork bomb has few

// proc(5): /proc/PID/task/TID/children lists those that a thread forked.
std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code failed;
  for (auto task = fs::directory_iterator(fmt::format("/proc/{}/task", pid), failed);
       !failed && task != fs::directory_iterator(); task.increment(failed)) {
    const std::string text = base::read_file(task->path() / "children").value_or("");
    for (const char* at = text.data(); at < text.data() + text.size();) {
      pid_t child = 0;
      const auto [end, bad] = std::from_chars(at, text.data() + text.size(), child);
      if (bad != std::errc{}) break;
      children.push_back(child);
      at = end + 1;
    }
  }
  return children;
}

std::vector<pid_t> descendants() {
  std::vector<pid_t> all = children_of(::getpid());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto children = children_of(all[i]);
    all.insert(all.end(), children.begin(), children.end());
  }
  return all;
}

// "RssAnon:\t    1234 kB"
std::uint64_t kibibytes(const std::string& status, std::string_view field) {
  const std::size_t at = status.find(field);
  if (at == std::string::npos) return 0;
  const std::size_t digits = status.find_first_of("0123456789", at + field.size());
  std::uint64_t value = 0;
  if (digits != std::string::npos) std::from_chars(status.data() + digits, status.data() + status.size(), value);
  return value;
}

Bytes resident(pid_t pid) {
  const std::string status = base::read_file(fmt::format("/proc/{}/status", pid)).value_or("");
  return {(kibibytes(status, "\nRssAnon:") + kibibytes(status, "\nRssShmem:")) * 1024};
}

// Of smaps_rollup (Linux 5.9 tells the kinds apart); the plain sum where it may not be read or isn't there.
Bytes proportional(pid_t pid) {
  const std::string rollup = base::read_file(fmt::format("/proc/{}/smaps_rollup", pid)).value_or("");
  if (rollup.find("\nPss_Anon:") == std::string::npos) return resident(pid);
  return {(kibibytes(rollup, "\nPss_Anon:") + kibibytes(rollup, "\nPss_Shmem:")) * 1024};
}

}  // namespace

Bytes memory_of_descendants(Bytes near) {
  const auto pids = descendants();
  Bytes total;
  for (const pid_t pid : pids) total += resident(pid);
  if (total <= near) return total;
  Bytes weighed;
  for (const pid_t pid : pids) weighed += proportional(pid);
  return weighed;
}

void kill_descendants() {
  for (int round = 0; round < k_rounds; ++round) {
    while (::waitpid(-1, nullptr, WNOHANG | __WALL) > 0) {
    }
    const auto all = descendants();
    if (all.empty()) return;
    for (const pid_t pid : all) ::kill(pid, SIGKILL);
    ::usleep(1000);
  }
}

}  // namespace startrail::supervise
