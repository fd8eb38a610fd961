#include "run/leftovers.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <ctime>
#include <vector>

#include "base/files.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::run {
namespace {

constexpr int k_rounds = 50;  // a process may fork, or write, while it is being looked for
constexpr useconds_t k_pause_us = 10'000;
constexpr std::time_t k_next_try_after = 3600;

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

std::vector<fs::path> folders_of(const fs::path& run_directory, const RunSpec& spec) {
  std::vector<fs::path> folders{run_directory / k_temp_folder};
  if (spec.scratch_after == sandbox::Scratch::discarded) folders.push_back(run_directory / k_scratch_folder);
  return folders;
}

enum class Removed { yes, not_yet, never };

// Not yet, while somebody still writes there: a runtime that was starting the container when its supervisor was killed.
// No wait changes what the system forbids: a file that is immutable, somebody else's, or on another filesystem.
Removed remove_folders(const fs::path& run_directory, const RunSpec& spec) {
  sandbox::remove_leftovers(spec.id, run_directory / k_scratch_folder);
  Removed removed = Removed::yes;
  for (const auto& folder : folders_of(run_directory, spec))
    if (const auto done = base::remove_tree(folder); !done) {
      if (done.error().code == ErrorCode::permission) return Removed::never;
      removed = Removed::not_yet;
    }
  return removed;
}

fs::path failure_mark(const fs::path& run_directory) {
  return run_directory / ".leftovers-stay";
}

bool failed_lately(const fs::path& run_directory) {
  struct stat status{};
  return ::stat(failure_mark(run_directory).c_str(), &status) == 0 &&
         ::time(nullptr) - status.st_mtime < k_next_try_after;
}

}  // namespace

bool has_leftovers(const fs::path& run_directory, const RunSpec& spec) {
  std::error_code ignored;
  const auto is_there = [&](const fs::path& folder) { return fs::exists(folder, ignored); };
  return std::ranges::any_of(folders_of(run_directory, spec), is_there) && !failed_lately(run_directory);
}

void remove_leftovers(const fs::path& run_directory, const RunSpec& spec) {
  if (spec.isolation == "none") kill_processes_of(spec.id);
  Removed removed = remove_folders(run_directory, spec);
  for (int round = 1; round < k_rounds && removed == Removed::not_yet; ++round) {
    ::usleep(k_pause_us);
    removed = remove_folders(run_directory, spec);
  }
  if (removed != Removed::yes) [[maybe_unused]]
    const auto marked = base::write_file_atomic(failure_mark(run_directory), "", 0600);
}

}  // namespace startrail::run
