#include "init/serve_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "init/service.hpp"

namespace startrail::init {
namespace {

// 126 and 127 as shells use them: found but not executable, not found.
constexpr int k_not_executable = 126;
constexpr int k_not_found = 127;
constexpr int k_most_streams = 3;

struct Request {
  ServiceCall call;
  int streams[k_most_streams] = {-1, -1, -1};
  int stream_count = 0;
  char* text = nullptr;  // the folder, then arguments and variables
  char** arguments = nullptr;
};

void send_event(int connection, ServiceEventKind kind, int value, int descriptor = -1) {
  ServiceEvent event{.kind = kind, .value = value};
  iovec part{.iov_base = &event, .iov_len = sizeof event};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  // MSG_NOSIGNAL: a caller that is gone is noticed elsewhere.
  ::sendmsg(connection, &message, MSG_NOSIGNAL);
}

void keep_streams(msghdr& message, Request& request) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const auto count = static_cast<int>((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    if (count > k_most_streams) return;
    std::memcpy(request.streams, CMSG_DATA(header), static_cast<size_t>(count) * sizeof(int));
    request.stream_count = count;
  }
}

bool receive_call(int connection, Request& request) {
  iovec part{.iov_base = &request.call, .iov_len = sizeof request.call};
  alignas(cmsghdr) char space[CMSG_SPACE(k_most_streams * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  if (::recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != sizeof request.call) return false;
  keep_streams(message, request);
  return true;
}

int streams_wanted(const ServiceCall& call) {
  if (call.streams == ServiceStreams::all) return 3;
  return call.streams == ServiceStreams::without_errors ? 2 : 0;
}

bool receive_text(int connection, Request& request) {
  const size_t size = request.call.size;
  request.text = static_cast<char*>(std::malloc(size + 1));
  if (request.text == nullptr) return false;
  size_t have = 0;
  while (have < size) {
    const ssize_t count = ::recv(connection, request.text + have, size - have, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    have += static_cast<size_t>(count);
  }
  request.text[size] = '\0';
  return true;
}

// Points into the text, and puts the variables into this process's environment.
bool take_apart(Request& request) {
  const ServiceCall& call = request.call;
  if (call.argument_count == 0 || call.argument_count > call.size || call.variable_count > call.size) return false;
  request.arguments = static_cast<char**>(std::calloc(call.argument_count + 1U, sizeof(char*)));
  if (request.arguments == nullptr) return false;
  char* at = request.text + std::strlen(request.text) + 1;
  const char* const end = request.text + call.size;
  for (unsigned i = 0; i < call.argument_count + call.variable_count; ++i) {
    if (at >= end) return false;
    if (i < call.argument_count) {
      request.arguments[i] = at;
    } else {
      ::putenv(at);
    }
    at += std::strlen(at) + 1;
  }
  return true;
}

bool receive(int connection, Request& request) {
  errno = EPROTO;
  if (!receive_call(connection, request)) return false;
  const ServiceCall& call = request.call;
  if (call.protocol != k_service_protocol || call.size > k_longest_call) return false;
  return request.stream_count == streams_wanted(call) && receive_text(connection, request) && take_apart(request);
}

struct Terminal {
  int ours = -1, commands = -1;
};

// By the descriptor alone (ioctl_tty(2), TIOCGPTPEER): no name is looked up.
Terminal open_terminal(const ServiceCall& call) {
  Terminal terminal;
  terminal.ours = ::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  int locked = 0;
  if (terminal.ours < 0 || ::ioctl(terminal.ours, TIOCSPTLCK, &locked) != 0) return terminal;
  terminal.commands = ::ioctl(terminal.ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  const winsize size{.ws_row = call.rows, .ws_col = call.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (terminal.commands >= 0) ::ioctl(terminal.commands, TIOCSWINSZ, &size);
  return terminal;
}

[[noreturn]] void become_command(const Request& request, const Terminal& terminal) {
  ::setsid();
  if (terminal.commands >= 0) {
    ::ioctl(terminal.commands, TIOCSCTTY, 0);
    for (int fd = 0; fd < k_most_streams; ++fd) ::dup2(terminal.commands, fd);
  } else {
    // All of them are above 2: this process was started with 0 to 2 open.
    for (int fd = 0; fd < request.stream_count; ++fd) ::dup2(request.streams[fd], fd);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const char* const folder = request.text;
  if (*folder != '\0' && ::chdir(folder) != 0) {
    dprintf(STDERR_FILENO, "trail: cannot enter %s: %s\n", folder, strerror(errno));
    ::_exit(k_not_executable);
  }
  ::execvp(request.arguments[0], request.arguments);
  const int reason = errno;
  dprintf(STDERR_FILENO, "trail: cannot run %s: %s\n", request.arguments[0], strerror(reason));
  ::_exit(reason == ENOENT ? k_not_found : k_not_executable);
}

void signal_command(pid_t command, int signal) {
  // Until it leads its own group there is only the process itself.
  if (::kill(-command, signal) != 0 && errno == ESRCH) ::kill(command, signal);
}

// False once the caller is gone.
bool obey(int connection, pid_t command) {
  ServiceSignal request;
  const ssize_t size = ::recv(connection, &request, sizeof request, MSG_DONTWAIT);
  if (size == static_cast<ssize_t>(sizeof request)) signal_command(command, request.signal);
  return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

// Returns the command's wait status, whatever becomes of the caller.
int wait_for_end(int connection, pid_t command, bool has_terminal) {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGCHLD);
  const int signals = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  pollfd fds[2] = {{.fd = connection, .events = POLLIN, .revents = 0}, {.fd = signals, .events = POLLIN, .revents = 0}};
  for (;;) {
    int status = 0;
    if (::waitpid(command, &status, WNOHANG) == command) return status;
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return 0;
    signalfd_siginfo info;
    // The instance ends. All have been told, but an interactive shell only heeds a hang-up.
    while (::read(signals, &info, sizeof info) == sizeof info)
      if (info.ssi_signo == SIGTERM && has_terminal) signal_command(command, SIGHUP);
    if (fds[0].revents != 0 && !obey(connection, command)) {
      signal_command(command, SIGHUP);
      fds[0].fd = -1;
    }
  }
}

int refuse(int connection) {
  send_event(connection, ServiceEventKind::refused, errno);
  return 1;
}

}  // namespace

int serve_command(int connection) {
  Request request;
  if (!receive(connection, request)) return refuse(connection);
  const bool wants_terminal = request.call.streams == ServiceStreams::terminal_of_ours;
  Terminal terminal;
  if (wants_terminal) terminal = open_terminal(request.call);
  if (wants_terminal && terminal.commands < 0) return refuse(connection);
  const pid_t command = ::fork();
  if (command == 0) become_command(request, terminal);
  if (command < 0) return refuse(connection);
  // Copies kept here would keep readers waiting, and the terminal from hanging up.
  for (int i = 0; i < request.stream_count; ++i) ::close(request.streams[i]);
  if (wants_terminal) {
    send_event(connection, ServiceEventKind::terminal, 0, terminal.ours);
    ::close(terminal.ours);
    ::close(terminal.commands);
  }
  const int status = wait_for_end(connection, command, wants_terminal);
  send_event(connection, ServiceEventKind::ended, status);
  return 0;
}

}  // namespace startrail::init
