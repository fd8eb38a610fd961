#include "sandbox/runtime_call.hpp"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include <charconv>

#include "base/json.hpp"
#include "sandbox/linux/launch.hpp"
#include "sandbox/linux/mount_calls.hpp"

namespace startrail::sandbox {
namespace {

constexpr const char* k_hierarchy = "/sys/fs/cgroup";
constexpr const char* k_second_hierarchy = "/sys/fs/cgroup/unified";

std::vector<std::string> arguments(const Support& support, const std::string& id, const ScratchPaths& paths) {
  std::vector<std::string> words{
      support.runtime.string(), "--root", paths.runtime.string(), "--log", paths.runtime_log.string(),
      "--log-format",           "json"};
  const bool crun = support.runtime_name == "crun";
  if (crun) {
    words.push_back(support.cgroup_limits ? "--cgroup-manager=cgroupfs" : "--cgroup-manager=disabled");
  } else if (!support.cgroup_limits) {
    words.insert(words.end(), {"--rootless", "true"});
  }
  // One descriptor beyond stdio: init::k_socket.
  words.insert(words.end(), {"run", "--detach", "--preserve-fds", "1", "--pid-file", paths.process_id_file.string(),
                             "--bundle", paths.bundle.string(), id});
  return words;
}

// The last message of a log of JSON lines, else the log's last line as it is.
std::string last_message(const fs::path& log) {
  const auto text = base::read_file(log);
  if (!text) return "no reason given";
  std::string last = "no reason given";
  for (std::size_t start = 0; start < text->size();) {
    const std::size_t end = std::min(text->find('\n', start), text->size());
    const std::string line = text->substr(start, end - start);
    start = end + 1;
    if (line.empty()) continue;
    const auto json = base::parse_json(line, "log");
    last = json ? base::string_at(*json, "msg", line) : line;
  }
  return last;
}

Error start_error(const Support& support, const ScratchPaths& paths, int status) {
  const std::string reason = last_message(paths.runtime_log);
  Error error = base::error(ErrorCode::unsupported,
                            fmt::format("{} could not start the container: {}", support.runtime_name, reason));
  error.with_context(
      fmt::format("{} {} ({})", support.runtime_name, support.runtime_version, support.runtime.string()));
  error.detail = fmt::format("status {}; log: {}", status, base::read_file(paths.runtime_log).value_or(""));
  return error;
}

bool is_on(const char* path, long type) {
  struct statfs status{};
  return ::statfs(path, &status) == 0 && static_cast<long>(status.f_type) == type;
}

}  // namespace

void hide_second_hierarchy(const Support& support) {
  if (support.runtime_name != "crun" || !is_on(k_second_hierarchy, CGROUP2_SUPER_MAGIC)) return;
  if (support.mode == Mode::root) {
    unmount(k_second_hierarchy);
  } else {
    // A user namespace can't unmount what it inherited, but it can cover it. Without limits crun needs no group.
    [[maybe_unused]] const auto covered = mount_tmpfs(k_hierarchy, "mode=0555");
  }
}

Result<pid_t> run_bundle(const Support& support, const std::string& id, const ScratchPaths& paths, Stdio stdio,
                         int init_socket) {
  const pid_t runtime = TRY(launch({.program = support.runtime,
                                    .arguments = arguments(support, id, paths),
                                    .environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
                                    .directory = paths.bundle,
                                    .stdio = stdio,
                                    .socket = init_socket}));
  const int status = TRY(wait_for(runtime));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return fail(start_error(support, paths, status));
  const std::string text = TRY(base::read_file(paths.process_id_file));
  pid_t pid = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), pid).ec != std::errc{} || pid <= 1)
    return fail(ErrorCode::internal, fmt::format("{} wrote no process id", support.runtime_name));
  return pid;
}

}  // namespace startrail::sandbox
