#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/json.hpp"
#include "init/protocol.hpp"
#include "sandbox/bundle.hpp"
#include "sandbox/control_group.hpp"
#include "sandbox/init_program.hpp"
#include "sandbox/linux/launch.hpp"
#include "sandbox/linux/mount_calls.hpp"
#include "sandbox/linux/own_namespaces.hpp"
#include "sandbox/mount_plan.hpp"
#include "sandbox/process_census.hpp"
#include "sandbox/root_filesystem.hpp"
#include "sandbox/runtime_call.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

using base::errno_error;
using base::Fd;

struct Container::State {
  std::string id;
  fs::path scratch;
  Identity identity;
  std::vector<std::string> notes;
  Fd socket;  // init's other end; closing it ends init
  pid_t pid = 0;
  Fd pid_descriptor;
  std::optional<ControlGroup> group;
  std::optional<ProcessCensus> census;
  std::optional<Bytes> watched_limit;  // set where no control group enforces it
  Bytes peak;
  bool killed_for_memory = false;
  bool waited = false;

  std::vector<Fd> memory_folders;  // filesystems whose files are memory that the census can't see

  ~State() {
    if (pid > 0 && !waited) {
      socket.reset();
      send_signal(SIGKILL);
      [[maybe_unused]] const auto status = wait_for(pid);
      remove_leftovers(id, scratch);
    }
  }
  // Init is this process's child and not waited for yet, so that its number is nobody else's.
  void send_signal(int signal) const {
    if (!pid_descriptor.valid() || ::syscall(SYS_pidfd_send_signal, pid_descriptor.get(), signal, nullptr, 0) != 0)
      ::kill(pid, signal);
  }
};

namespace {

struct Socket {
  Fd ours, inits;
};

Result<Socket> make_socket() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail(errno_error("cannot create a socket for the container's init", errno));
  return Socket{.ours = Fd(ends[0]), .inits = Fd(ends[1])};
}

Result<void> send_start(const Fd& socket, const init::StartRequest& request) {
  const std::size_t size = size_of(request);
  if (::send(socket.get(), &request, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size)) return {};
  return fail(errno_error("cannot tell the container's init what to do", errno));
}

Result<void> send_request(const Fd& socket, int signal) {
  const init::SignalRequest request{.signal = signal};
  if (::send(socket.get(), &request, sizeof request, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof request)) return {};
  // Init is gone, and the command with it: nobody is left to be told.
  if (errno == EPIPE || errno == ECONNRESET) return {};
  return fail(errno_error("cannot signal the container", errno));
}

// The id becomes a folder, a control group and a runtime's state: plain names only.
Result<void> check(const ContainerSpec& spec) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (spec.id.empty() || spec.id.front() == '.' || !std::ranges::all_of(spec.id, plain))
    return fail(ErrorCode::invalid_input, fmt::format("`{}` is no name for a container", spec.id));
  if (spec.argv.empty()) return fail(ErrorCode::invalid_input, "there is no command to run in the container");
  if (!spec.scratch.is_absolute())
    return fail(ErrorCode::invalid_input, fmt::format("the scratch folder {} is not absolute", spec.scratch.string()));
  return {};
}

// Everything that the runtime finds ready: namespaces, root filesystem, mounts, config.json.
Result<void> prepare(const Support& support, const ContainerSpec& spec, Container::State& state) {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  const auto paths = scratch_paths(spec.scratch);
  TRY(base::make_directories(paths.bundle));
  TRY(enter_own_namespaces(support.mode));
  TRY(mount_tmpfs(paths.bundle, "mode=0755,size=32m"));
  TRY(base::make_directories(paths.runtime, 0700));
  auto plan = TRY(plan_mounts(spec, support.mode, uid, gid));
  auto root = TRY(RootFilesystem::mount(spec, support.mode, plan.identity));
  TRY(add_own_mounts(plan, spec, support.mode));
  for (const auto& mount : plan.mounts) TRY(root.attach(mount.tree, mount.target, plan.identity));
  hide_second_hierarchy(support);
  state.identity = plan.identity;
  state.notes = root.notes();
  if (Fd memory = root.take_memory(); memory.valid()) state.memory_folders.push_back(std::move(memory));
  const Json configuration = runtime_configuration(spec, support, state.identity, paths.root);
  return base::write_file_atomic(paths.bundle / "config.json", base::to_compact_text(configuration), 0600);
}

Result<pid_t> start_without_container(const ContainerSpec& spec, Stdio stdio, int socket) {
  const fs::path program = TRY(init_program());
  std::vector<std::string> arguments{program.string()};
  arguments.insert(arguments.end(), spec.argv.begin(), spec.argv.end());
  std::vector<std::string> environment;
  for (const auto& [key, value] : spec.environment) environment.push_back(key + "=" + value);
  return launch({.program = program,
                 .arguments = std::move(arguments),
                 .environment = std::move(environment),
                 .directory = spec.directory,
                 .stdio = stdio,
                 .socket = socket});
}

Result<Fd> open_pid_descriptor(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.valid()) return fail(errno_error("cannot watch the container's init", errno));
  return fd;
}

// What init said before it ended. Killed first, it may have said nothing.
struct Reports {
  std::optional<init::Report> cannot_confine, ended;
  std::vector<pid_t> survivors;
};

Reports read_reports(const Fd& socket) {
  Reports all;
  init::Report report;
  while (::recv(socket.get(), &report, sizeof report, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof report)) {
    if (report.kind == init::ReportKind::cannot_confine && !all.cannot_confine) all.cannot_confine = report;
    if (report.kind == init::ReportKind::ended) all.ended = report;
    if (report.kind == init::ReportKind::survivor) all.survivors.push_back(report.value);
  }
  return all;
}

Error cannot_confine(const init::Report& report) {
  const std::string step(report.step, ::strnlen(report.step, sizeof report.step));
  Error error =
      base::error(ErrorCode::unsupported, fmt::format("the command did not start: the kernel refused its {}", step));
  error.with_context(base::errno_error(step, report.value).message);
  return error.with_hint("a security module (AppArmor, SELinux) may forbid it: `trail doctor` names the setting")
      .with_hint("`trail run --isolation none` runs without a container, and the record says so");
}

// Where no control group limits memory, this process watches it, through the container's own /proc.
Result<void> watch_memory(Container::State& state, const Limits& limits) {
  state.watched_limit = limits.memory;
  auto census = ProcessCensus::of_container(state.pid);
  if (census) {
    state.census = std::move(*census);
    if (auto shared = base::open_file(fmt::format("/proc/{}/root/dev/shm", state.pid), O_PATH | O_DIRECTORY))
      state.memory_folders.push_back(std::move(*shared));
    return {};
  }
  pollfd end{.fd = state.pid_descriptor.get(), .events = POLLIN, .revents = 0};
  const bool already_ended = ::poll(&end, 1, 0) > 0;
  if (!limits.memory || already_ended) return {};
  return fail(std::move(census).error().with_context("without it the memory limit can't be watched"));
}

Bytes used_in(const std::vector<Fd>& filesystems) {
  Bytes used;
  struct statfs status{};
  for (const auto& fd : filesystems) {
    if (::fstatfs(fd.get(), &status) == 0)
      used.count += (status.f_blocks - status.f_bfree) * static_cast<std::uint64_t>(status.f_bsize);
  }
  return used;
}

// Init becomes this process's child when the last process of the runtime has ended, which may be a moment after the
// runtime said that it was done: a short command can be over before.
Result<int> wait_for_adopted(pid_t pid) {
  constexpr auto k_patience = std::chrono::seconds(10);
  const auto give_up = std::chrono::steady_clock::now() + k_patience;
  for (;;) {
    int status = 0;
    if (::waitpid(pid, &status, __WALL) == pid) return status;
    const int reason = errno;
    if (reason == EINTR) continue;
    if (reason != ECHILD || std::chrono::steady_clock::now() > give_up)
      return fail(errno_error("cannot wait for the container's init", reason));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void set_status(Ended& ended, int status) {
  if (WIFSIGNALED(status)) {
    ended.signal = WTERMSIG(status);
  } else {
    ended.exit_code = WEXITSTATUS(status);
  }
}

}  // namespace

Container::Container(std::unique_ptr<State> state) : m_state(std::move(state)) {}
Container::Container(Container&&) noexcept = default;
Container& Container::operator=(Container&&) noexcept = default;
Container::~Container() = default;

Result<Container> Container::start(const Support& support, const ContainerSpec& spec, Stdio stdio) {
  TRY(check(spec));
  auto state = std::make_unique<State>();
  state->id = spec.id;
  state->scratch = spec.scratch;
  // The runtime exits once init runs: init then becomes this process's child, to be waited for.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    return fail(errno_error("cannot adopt the container's init", errno));
  if (support.mode == Mode::none) {
    state->identity = caller_identity(::geteuid(), ::getegid());
    state->identity.how = fmt::format("uid {}, not isolated", ::geteuid());
  } else {
    TRY(prepare(support, spec, *state));
  }
  auto socket = TRY(make_socket());
  const auto request = TRY(start_request(support, spec, state->identity));
  TRY(send_start(socket.ours, request));
  auto pid = support.mode == Mode::none
                 ? start_without_container(spec, stdio, socket.inits.get())
                 : run_bundle(support, spec.id, scratch_paths(spec.scratch), stdio, socket.inits.get());
  if (!pid) {
    remove_leftovers(spec.id, spec.scratch);
    return fail(std::move(pid).error());
  }
  state->pid = *pid;
  state->socket = std::move(socket.ours);
  state->pid_descriptor = TRY(open_pid_descriptor(*pid));
  if (support.cgroup_limits) state->group = ControlGroup::find(spec.id);
  if (support.mode != Mode::none && !state->group) TRY(watch_memory(*state, spec.limits));
  TRY(send_request(state->socket, 0));
  return Container(std::move(state));
}

pid_t Container::pid() const {
  return m_state->pid;
}
int Container::pid_descriptor() const {
  return m_state->pid_descriptor.get();
}
const Identity& Container::identity() const {
  return m_state->identity;
}
const std::vector<std::string>& Container::notes() const {
  return m_state->notes;
}

Result<void> Container::signal(int signal) {
  if (signal <= 0) return fail(ErrorCode::invalid_input, fmt::format("{} is no signal", signal));
  return send_request(m_state->socket, signal);
}

void Container::kill() {
  m_state->send_signal(SIGKILL);
}

Bytes Container::memory_now() const {
  Bytes now;
  if (m_state->group) {
    now = m_state->group->memory_now();
  } else if (m_state->census) {
    constexpr std::uint64_t k_near_percent = 90;
    const auto near = m_state->watched_limit
                          ? std::optional(Bytes{m_state->watched_limit->count / 100 * k_near_percent})
                          : std::nullopt;
    now = m_state->census->memory(near, used_in(m_state->memory_folders));
  }
  m_state->peak = std::max(m_state->peak, now);
  return now;
}

int Container::process_count() const {
  const int with_init = m_state->group    ? m_state->group->process_count()
                        : m_state->census ? m_state->census->count()
                                          : 0;
  return std::max(0, with_init - 1);
}

bool Container::enforce_memory_limit() {
  if (!m_state->watched_limit || m_state->killed_for_memory) return m_state->killed_for_memory;
  if (memory_now() <= *m_state->watched_limit) return false;
  m_state->killed_for_memory = true;
  kill();
  return true;
}

Result<Ended> Container::wait() {
  constexpr int k_watch_every_ms = 50;
  pollfd end{.fd = m_state->pid_descriptor.get(), .events = POLLIN, .revents = 0};
  while (::poll(&end, 1, m_state->watched_limit ? k_watch_every_ms : -1) == 0) enforce_memory_limit();
  const int init_status = TRY(wait_for_adopted(m_state->pid));
  m_state->waited = true;
  const Reports reports = read_reports(m_state->socket);
  if (reports.cannot_confine) {
    remove_leftovers(m_state->id, m_state->scratch);
    return fail(cannot_confine(*reports.cannot_confine));
  }
  Ended ended{.out_of_memory = m_state->killed_for_memory, .survivors = reports.survivors};
  set_status(ended, reports.ended ? reports.ended->value : init_status);
  if (m_state->group) {
    ended.out_of_memory = m_state->group->out_of_memory_killed();
    ended.pids_limit_hit = m_state->group->process_limit_hit();
    ended.peak_memory = m_state->group->peak_memory();
  } else if (m_state->peak.count != 0) {
    ended.peak_memory = m_state->peak;
  }
  remove_leftovers(m_state->id, m_state->scratch);
  return ended;
}

void remove_leftovers(const std::string& id, const fs::path& scratch) {
  remove_control_group(id);
  [[maybe_unused]] const auto removed = base::remove_tree(scratch_paths(scratch).runtime);
}

}  // namespace startrail::sandbox
