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

constexpr int k_rounds = 20;  // a process may fork while it is being looked for

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
    ::usleep(5000);
  }
}

}  // namespace

void remove_leftovers(const fs::path& run_directory, const RunSpec& spec) {
  if (spec.isolation == "none") kill_processes_of(spec.id);
  sandbox::remove_leftovers(spec.id, run_directory / k_scratch_folder);
  for (const char* folder : {k_scratch_folder, k_temp_folder}) [[maybe_unused]]
    const auto removed = base::remove_tree(run_directory / folder);
}

}  // namespace startrail::run
