#include "instance/attached.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

namespace startrail::instance {
namespace {

using base::Fd;
using init::ServiceStreams;

constexpr std::size_t k_chunk = 64U << 10U;

// Bytes on their way from one descriptor to another, at most a chunk of them waiting.
class Flow {
 public:
  Flow(int from, int to) : m_from(from), m_to(to) {}
  [[nodiscard]] bool is_open() const { return m_open; }
  [[nodiscard]] pollfd waits_for() const {
    if (!m_open) return {.fd = -1, .events = 0, .revents = 0};
    if (m_used < m_size) return {.fd = m_to, .events = POLLOUT, .revents = 0};
    return {.fd = m_from, .events = POLLIN, .revents = 0};
  }
  // Moves what can be moved without waiting; the end of either side closes the flow.
  void move() {
    if (m_used == m_size) fill();
    if (m_used < m_size) empty();
  }
  // What is there already, and no more: whoever else holds the other end may never let go.
  void finish() {
    while (m_open && is_ready(waits_for())) move();
  }

 private:
  static bool is_ready(pollfd waiting) { return ::poll(&waiting, 1, waiting.events == POLLOUT ? -1 : 0) > 0; }
  void fill() {
    const ssize_t count = ::read(m_from, m_buffer.data(), m_buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    m_used = 0;
    m_size = count > 0 ? static_cast<std::size_t>(count) : 0;
    m_open = count > 0;  // a terminal whose other end was closed gives EIO
  }
  void empty() {
    const ssize_t count = ::write(m_to, m_buffer.data() + m_used, m_size - m_used);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) m_open = false;
    m_used += count > 0 ? static_cast<std::size_t>(count) : 0;
  }

  int m_from, m_to;
  bool m_open = true;
  std::size_t m_used = 0, m_size = 0;
  std::vector<char> m_buffer = std::vector<char>(k_chunk);
};

// This process's terminal passes every key on while this lives.
class RawTerminal {
 public:
  RawTerminal() {
    if (::tcgetattr(STDIN_FILENO, &m_before) != 0) return;
    m_changed = true;
    termios raw = m_before;
    ::cfmakeraw(&raw);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal() {
    if (m_changed) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &m_before);
  }

 private:
  termios m_before{};
  bool m_changed = false;
};

Result<Fd> signals_of_interest() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) sigaddset(&set, signal);
  // A reader that is gone is told by write.
  ::signal(SIGPIPE, SIG_IGN);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return fail(base::errno_error("cannot watch signals", errno));
  return fd;
}

struct Pipe {
  Fd from, to;
};

// Whoever the command runs as may open it by name (/dev/stdout).
Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(base::errno_error("cannot create a pipe", errno));
  ::fchmod(ends[0], 0666);
  return Pipe{.from = Fd(ends[0]), .to = Fd(ends[1])};
}

winsize size_of_terminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
  return size;
}

class Attachment {
 public:
  Attachment(const Connection& connection, Fd signals) : m_connection(connection), m_signals(std::move(signals)) {}

  Result<int> run(Call call) {
    if (call.streams == ServiceStreams::terminal_of_ours)
      TRY(begin_with_terminal(std::move(call)));
    else
      TRY(begin_with_pipes(call));
    while (!m_status) TRY(wait_once());
    for (std::size_t i = 1; i < m_flows.size(); ++i) m_flows[i].finish();
    return *m_status;
  }

 private:
  Result<void> begin_with_pipes(const Call& call) {
    std::array<Pipe, 3> pipes{TRY(make_pipe()), TRY(make_pipe()), TRY(make_pipe())};
    TRY(m_connection.send(call, std::array{pipes[0].from.get(), pipes[1].to.get(), pipes[2].to.get()}));
    m_ends[0] = std::move(pipes[0].to);
    m_ends[1] = std::move(pipes[1].from);
    m_ends[2] = std::move(pipes[2].from);
    // A command that doesn't read must not keep this process from hearing of its end.
    ::fcntl(m_ends[0].get(), F_SETFL, O_NONBLOCK);
    m_flows = {Flow(STDIN_FILENO, m_ends[0].get()), Flow(m_ends[1].get(), STDOUT_FILENO),
               Flow(m_ends[2].get(), STDERR_FILENO)};
    return {};
  }

  Result<void> begin_with_terminal(Call call) {
    const winsize size = size_of_terminal();
    call.rows = size.ws_row;
    call.columns = size.ws_col;
    TRY(m_connection.send(call, {}));
    Event event = TRY(m_connection.receive());
    if (event.kind != init::ServiceEventKind::terminal)
      return fail(base::errno_error("the instance could not open a terminal", event.value));
    m_ends[0] = std::move(event.terminal);
    // Its queue holds a few kilobytes: a long paste must not keep this process from reading what is printed meanwhile.
    ::fcntl(m_ends[0].get(), F_SETFL, O_RDWR | O_NONBLOCK);
    m_raw.emplace();
    m_flows = {Flow(STDIN_FILENO, m_ends[0].get()), Flow(m_ends[0].get(), STDOUT_FILENO)};
    m_has_terminal = true;
    return {};
  }

  Result<void> wait_once() {
    std::array<pollfd, 5> fds{{{.fd = m_connection.descriptor(), .events = POLLIN, .revents = 0},
                               {.fd = m_signals.get(), .events = POLLIN, .revents = 0},
                               {.fd = -1, .events = 0, .revents = 0},
                               {.fd = -1, .events = 0, .revents = 0},
                               {.fd = -1, .events = 0, .revents = 0}}};
    for (std::size_t i = 0; i < m_flows.size(); ++i) fds[i + 2] = m_flows[i].waits_for();
    if (::poll(fds.data(), fds.size(), -1) < 0) return {};
    if (fds[1].revents != 0) pass_signals_on();
    for (std::size_t i = 0; i < m_flows.size(); ++i)
      if (fds[i + 2].revents != 0) move(i);
    if (fds[0].revents == 0) return {};
    const Event event = TRY(m_connection.receive());
    if (event.kind == init::ServiceEventKind::refused) return fail(refusal(event.value));
    if (event.kind == init::ServiceEventKind::ended) m_status = event.value;
    return {};
  }

  void move(std::size_t flow) {
    m_flows[flow].move();
    if (m_flows[flow].is_open() || m_has_terminal) return;
    // The end of our input is the end of the command's; a reader of ours that is gone is gone for the command too.
    m_ends[flow].reset();
  }

  void pass_signals_on() {
    signalfd_siginfo info;
    while (::read(m_signals.get(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGWINCH) {
        m_connection.signal(signal);
      } else if (m_has_terminal) {
        const winsize size = size_of_terminal();
        ::ioctl(m_ends[0].get(), TIOCSWINSZ, &size);
      }
    }
  }

  const Connection& m_connection;
  Fd m_signals;
  std::array<Fd, 3> m_ends;
  std::vector<Flow> m_flows;
  std::optional<RawTerminal> m_raw;
  std::optional<int> m_status;
  bool m_has_terminal = false;
};

}  // namespace

Result<int> run_attached(const Connection& connection, Call call) {
  return Attachment(connection, TRY(signals_of_interest())).run(std::move(call));
}

}  // namespace startrail::instance
