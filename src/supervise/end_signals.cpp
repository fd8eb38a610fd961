#include "supervise/end_signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace startrail::supervise {
namespace {

// What a signal handler may touch (POSIX: lock-free or volatile sig_atomic_t).
volatile std::sig_atomic_t g_terminations = 0;
volatile std::sig_atomic_t g_interrupted = 0;
volatile std::sig_atomic_t g_pipe_write_end = -1;
int g_pipe_read_end = -1;

extern "C" void on_end_signal(int signal) {
  const int saved = errno;
  if (signal == SIGINT) {
    g_interrupted = 1;
  } else {
    g_terminations = g_terminations + 1;
  }
  [[maybe_unused]] const auto written = ::write(g_pipe_write_end, "", 1);
  errno = saved;
}

extern "C" void do_nothing(int) {}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

Result<void> catch_end_signals() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return fail(base::errno_error("cannot create a pipe for signals", errno));
  g_pipe_read_end = ends[0];
  g_pipe_write_end = ends[1];
  handle(SIGTERM, on_end_signal);
  handle(SIGINT, on_end_signal);
  handle(SIGHUP, do_nothing);
  handle(SIGPIPE, do_nothing);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  return {};
}

int end_signal_descriptor() {
  return g_pipe_read_end;
}

Urgency end_urgency() {
  std::array<char, 64> drained{};
  while (::read(g_pipe_read_end, drained.data(), drained.size()) > 0) {
  }
  if (g_interrupted != 0 || g_terminations > 1) return Urgency::at_once;
  return g_terminations == 1 ? Urgency::gracefully : Urgency::none;
}

}  // namespace startrail::supervise
