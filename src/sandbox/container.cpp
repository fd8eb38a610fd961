#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/json.hpp"
#include "init/protocol.hpp"
#include "sandbox/bundle.hpp"
#include "sandbox/control_group.hpp"
#include "sandbox/init_program.hpp"
#include "sandbox/linux/launch.hpp"
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

  ~State() {
    if (pid > 0 && !waited) {
      send_signal(SIGKILL);
      [[maybe_unused]] const auto status = wait_for(pid);
      remove_leftovers(id, scratch);
    }
  }
  void send_signal(int signal) const { ::syscall(SYS_pidfd_send_signal, pid_descriptor.get(), signal, nullptr, 0); }
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
Result<void> prepare(const Support& support, const ContainerSpec& spec, Identity& identity,
                     std::vector<std::string>& notes) {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  const auto paths = scratch_paths(spec.scratch);
  TRY(base::make_directories(paths.bundle));
  TRY(base::remove_tree(paths.runtime));
  TRY(base::make_directories(paths.runtime, 0700));
  ::unlink(paths.runtime_log.c_str());
  TRY(enter_own_namespaces(support.mode));
  auto plan = TRY(plan_mounts(spec, support.mode, uid, gid));
  const auto root = TRY(RootFilesystem::mount(spec, support.mode, plan.identity));
  TRY(add_own_mounts(plan, spec, support.mode));
  for (const auto& mount : plan.mounts) TRY(root.attach(mount.tree, mount.target, plan.identity));
  hide_second_hierarchy(support);
  identity = plan.identity;
  notes = root.notes();
  const Json configuration = runtime_configuration(spec, support, identity, paths.root);
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

// What init said before it ended; nullopt when it was killed first.
std::optional<init::Report> last_report(const Fd& socket) {
  std::optional<init::Report> last;
  init::Report report;
  while (::recv(socket.get(), &report, sizeof report, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof report))
    last = report;
  return last;
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
    TRY(prepare(support, spec, state->identity, state->notes));
  }
  auto socket = TRY(make_socket());
  TRY(send_start(socket.ours, start_request(support, spec, state->identity)));
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
  if (support.mode != Mode::none && !state->group) {
    if (auto census = ProcessCensus::of_container(*pid)) state->census = std::move(*census);
    state->watched_limit = spec.limits.memory;
  }
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
    now = m_state->census->memory(near);
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
  const int init_status = TRY(wait_for(m_state->pid));
  m_state->waited = true;
  Ended ended{.out_of_memory = m_state->killed_for_memory};
  const auto report = last_report(m_state->socket);
  set_status(ended, report && report->kind == init::ReportKind::ended ? report->value : init_status);
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
