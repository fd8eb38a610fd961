#include "run/leftovers.hpp"

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <vector>

#include "base/files.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::run {
namespace {

constexpr int k_rounds = 50;  // a process may fork, or write, while it is being looked for
constexpr useconds_t k_pause_us = 10'000;

bool carries(const fs::path& environment_file, const std::string& entry) {
  const auto environment = base::read_file(environment_file);
  if (!environment) return false;
  const std::string bounded = '\0' + *environment + '\0';
  return bounded.find('\0' + entry + '\0') != std::string::npos;
}

std::vector<pid_t> processes_of(const std::string& run_id) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string digits = entry.path().filename();
    pid_t pid = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
    if (failed != std::errc{} || end != digits.data() + digits.size() || pid == ::getpid()) continue;
    if (carries(entry.path() / "environ", "TRAIL_RUN_ID=" + run_id)) found.push_back(pid);
  }
  return found;
}

void kill_processes_of(const std::string& run_id) {
  for (int round = 0; round < k_rounds; ++round) {
    const auto found = processes_of(run_id);
    if (found.empty()) return;
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    ::usleep(k_pause_us);
  }
}

// False while somebody still writes there: a runtime that was starting the container when its supervisor was killed.
bool remove_folders(const fs::path& run_directory, const std::string& run_id) {
  sandbox::remove_leftovers(run_id, run_directory / k_scratch_folder);
  bool gone = true;
  for (const char* folder : {k_scratch_folder, k_temp_folder})
    gone = base::remove_tree(run_directory / folder).has_value() && gone;
  return gone;
}

}  // namespace

void remove_leftovers(const fs::path& run_directory, const RunSpec& spec) {
  if (spec.isolation == "none") kill_processes_of(spec.id);
  for (int round = 0; round < k_rounds && !remove_folders(run_directory, spec.id); ++round) ::usleep(k_pause_us);
}

}  // namespace startrail::run
