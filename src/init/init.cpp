// PID 1 of every container: starts the command under its last restrictions, reaps orphans, forwards
// signals, reports the command's end exactly, and dies with its supervisor. Static, without exceptions:
// it runs on whatever root filesystem the image brings.
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "init/protocol.hpp"
#include "init/serve.hpp"
#include "init/service.hpp"

namespace {

using startrail::init::Confinement;
using startrail::init::k_socket;
using startrail::init::Report;
using startrail::init::ReportKind;
using startrail::init::SignalRequest;
using startrail::init::StartRequest;
using startrail::init::UserNamespace;

// 126 and 127 as shells use them: found but not executable, not found.
constexpr int k_not_executable = 126;
constexpr int k_not_found = 127;

StartRequest g_request;

void send_report(ReportKind kind, int value, const char* step = "") {
  Report report{.kind = kind, .value = value};
  std::strncpy(report.step, step, sizeof report.step - 1);
  // MSG_NOSIGNAL: a supervisor that is gone is noticed by the poll loop, not by SIGPIPE.
  ::send(k_socket, &report, sizeof report, MSG_NOSIGNAL);
}

void say(const char* what, const char* name, int error_number) {
  dprintf(STDERR_FILENO, "trail: %s%s%s: %s\n", what, *name != '\0' ? " " : "", name, strerror(error_number));
}

bool write_file(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const size_t length = std::strlen(text);
  const bool written = ::write(fd, text, length) == static_cast<ssize_t>(length);
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return written;
}

// user_namespaces(7): a process may map its own ids to any one id; setgroups was denied by the supervisor's
// namespace already, which gid_map needs, but a caller that is not rootless may not have done it.
bool enter_own_user_namespace() {
  const unsigned outer_uid = ::geteuid();
  const unsigned outer_gid = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) return false;
  char line[64];
  std::snprintf(line, sizeof line, "%u %u 1", g_request.uid, outer_uid);
  if (!write_file("/proc/self/uid_map", line)) return false;
  if (!write_file("/proc/self/setgroups", "deny") && errno != ENOENT && errno != EPERM) return false;
  std::snprintf(line, sizeof line, "%u %u 1", g_request.gid, outer_gid);
  return write_file("/proc/self/gid_map", line);
}

// The bounding set limits what any later exec could regain; EINVAL marks the end of the kernel's list.
void drop_bounding_set() {
  for (int capability = 0; ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; ++capability) {
  }
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

// For init itself, once the command is on its way.
void drop_own_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct none[2] = {};
  ::syscall(SYS_capset, &header, none);
}

bool limit_processes() {
  if (g_request.process_limit == 0) return true;
  rlimit limit{};
  ::getrlimit(RLIMIT_NPROC, &limit);
  // Lowering only: raising the hard limit would need CAP_SYS_RESOURCE.
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < g_request.process_limit) return true;
  limit.rlim_cur = limit.rlim_max = g_request.process_limit;
  return ::setrlimit(RLIMIT_NPROC, &limit) == 0;
}

void choose_cpus() {
  bool any = false;
  for (const auto word : g_request.cpus) any = any || word != 0;
  // Best effort: a CPU may have gone offline since the supervisor looked.
  if (any) ::syscall(SYS_sched_setaffinity, 0, sizeof g_request.cpus, g_request.cpus);
}

bool load_filter() {
  if (g_request.filter_length == 0) return true;
  sock_fprog program{.len = static_cast<unsigned short>(g_request.filter_length), .filter = g_request.filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

// With the host's network its abstract Unix sockets are in reach too (D-Bus, X), whatever the filesystem hides:
// landlock(7) keeps the command to those of its own processes, from ABI 6 (Linux 6.12) on; older kernels can't.
bool scope_abstract_sockets() {
  constexpr int k_scopes_abi = 6;
  struct {
    unsigned long long files = 0, ports = 0, scopes = 1;  // LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
  } rules;
  constexpr unsigned k_version = 1;  // LANDLOCK_CREATE_RULESET_VERSION
  if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, k_version) < k_scopes_abi) return true;
  const auto ruleset = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0));
  if (ruleset < 0) return false;
  const bool restricted =
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  const int reason = errno;
  ::close(ruleset);
  errno = reason;
  return restricted;
}

[[noreturn]] void give_up(const char* step) {
  const int reason = errno;
  send_report(ReportKind::cannot_confine, reason, step);
  say("cannot confine the command:", step, reason);
  ::_exit(k_not_executable);
}

[[noreturn]] void become_command(char** argv) {
  // The command leads its own session, so that signals reach its whole group and no terminal is inherited.
  ::setsid();
  // Writing one's own id maps needs a dumpable process; nothing else runs in here yet.
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  if (g_request.user_namespace == UserNamespace::own && !enter_own_user_namespace()) give_up("user namespace");
  if (g_request.confinement == Confinement::container) {
    drop_bounding_set();
    if (!scope_abstract_sockets()) give_up("scope of sockets");
  }
  if (!limit_processes()) give_up("process limit");
  choose_cpus();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Descriptors of ours must not reach the command; the socket stays until exec for the report.
  ::syscall(SYS_close_range, k_socket, ~0U, 1U << 2U /* CLOSE_RANGE_CLOEXEC */);
  if (!load_filter()) give_up("seccomp filter");
  ::execvp(argv[0], argv);
  const int reason = errno;
  say("cannot run", argv[0], reason);
  ::_exit(reason == ENOENT ? k_not_found : k_not_executable);
}

// Reaps whatever has ended; returns true and the status once the command itself has.
bool reap(pid_t command, int& command_status) {
  bool command_ended = false;
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | __WALL);
    if (pid <= 0) return command_ended;
    if (pid == command) {
      command_status = status;
      command_ended = true;
    }
  }
}

void signal_command(pid_t command, int signal) {
  // Until the command has become a group leader there is only the process itself.
  if (::kill(-command, signal) != 0 && errno == ESRCH) ::kill(command, signal);
}

bool g_adopted = false;

// False once the supervisor is gone.
bool take_request(pid_t command) {
  SignalRequest request;
  const ssize_t size = ::recv(k_socket, &request, sizeof request, MSG_DONTWAIT);
  if (size == static_cast<ssize_t>(sizeof request)) {
    if (request.signal == 0) {
      g_adopted = true;
    } else {
      signal_command(command, request.signal);
    }
  }
  return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

void take_signal(int signal_fd, pid_t command) {
  signalfd_siginfo info;
  while (::read(signal_fd, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal != SIGCHLD && signal != SIGPIPE) signal_command(command, signal);
  }
}

struct Children {
  int count = 0, killed = 0;
};

enum class Survivors { unreported, reported };

// Kills init's children, as many as a buffer's worth.
Children kill_children(Survivors survivors) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", ::getpid());
  char text[4096] = {};
  Children children;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return children;
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (size <= 0) return children;
  char* rest = text;
  for (long pid = std::strtol(rest, &rest, 10); pid > 1; pid = std::strtol(rest, &rest, 10)) {
    ++children.count;
    if (::kill(static_cast<pid_t>(pid), SIGKILL) == 0) {
      ++children.killed;
    } else if (survivors == Survivors::reported) {
      send_report(ReportKind::survivor, static_cast<int>(pid));
    }
  }
  return children;
}

// As PID 1, init's end is everybody's end (pid_namespaces(7)). Without a PID namespace it adopts whatever the command
// leaves behind (PR_SET_CHILD_SUBREAPER), and kills it generation by generation. What it may not kill (a child of
// sudo's) or what won't die (in the kernel, on a dead disk) is reported in the end and left.
void kill_everything_left() {
  constexpr int k_rounds = 2000;
  constexpr int k_pause_us = 1000;
  if (::getpid() == 1) return;
  for (int round = 0; round < k_rounds; ++round) {
    const Children children = kill_children(Survivors::unreported);
    if (children.count == 0) return;
    while (::waitpid(-1, nullptr, WNOHANG | __WALL) > 0) {
    }
    if (children.killed == 0) break;
    ::usleep(k_pause_us);
  }
  kill_children(Survivors::reported);
}

void wait_for_adoption() {
  while (!g_adopted) {
    SignalRequest request;
    const ssize_t size = ::recv(k_socket, &request, sizeof request, 0);
    if (size == 0 || (size < 0 && errno != EINTR)) return;
    g_adopted = size == static_cast<ssize_t>(sizeof request) && request.signal == 0;
  }
}

int watch(pid_t command, int signal_fd) {
  for (;;) {
    int status = 0;
    if (reap(command, status)) {
      send_report(ReportKind::ended, status);
      kill_everything_left();
      wait_for_adoption();
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    pollfd fds[2] = {{.fd = k_socket, .events = POLLIN, .revents = 0},
                     {.fd = signal_fd, .events = POLLIN, .revents = 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return k_not_executable;
    if (fds[1].revents != 0) take_signal(signal_fd, command);
    if (fds[0].revents != 0 && !take_request(command)) {
      kill_everything_left();
      return 128 + SIGKILL;
    }
  }
}

bool receive_start() {
  const ssize_t size = ::recv(k_socket, &g_request, sizeof g_request, 0);
  const auto shortest = static_cast<ssize_t>(offsetof(StartRequest, filter));
  return size >= shortest && g_request.protocol == startrail::init::k_protocol &&
         g_request.filter_length <= startrail::init::k_longest_filter &&
         size >= shortest + static_cast<ssize_t>(g_request.filter_length * sizeof(sock_filter));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    dprintf(STDERR_FILENO, "trail-init: runs inside containers only\n");
    return 2;
  }
  if (std::strcmp(argv[1], startrail::init::k_serve) == 0) return startrail::init::serve_instance();
  ::fcntl(k_socket, F_SETFD, FD_CLOEXEC);
  if (!receive_start()) return k_not_executable;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  const int signal_fd = ::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  // The command has init's host uid: without this it could trace init, which has fewer restrictions (ptrace(2)).
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const pid_t command = ::fork();
  if (command == 0) become_command(argv + 1);
  if (command < 0) give_up("first process");
  if (g_request.confinement == Confinement::container) drop_own_capabilities();
  load_filter();
  return watch(command, signal_fd);
}
