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

volatile std::sig_atomic_t g_starting = 0;
volatile std::sig_atomic_t g_start_ran_out = 0;

// In a signal handler: only calls that signal-safety(7) allows. proc(5): the children of the one thread there is.
void kill_children() {
  const int file = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::array<char, 4096> text{};
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  pid_t pid = 0;
  for (ssize_t i = 0; i < size; ++i) {
    if (text[static_cast<std::size_t>(i)] != ' ') {
      pid = pid * 10 + (text[static_cast<std::size_t>(i)] - '0');
    } else {
      if (pid > 0) ::kill(pid, SIGKILL);
      pid = 0;
    }
  }
}

extern "C" void on_end_signal(int signal) {
  const int saved = errno;
  if (signal == SIGINT) {
    g_interrupted = 1;
  } else {
    g_terminations = g_terminations + 1;
  }
  [[maybe_unused]] const auto written = ::write(g_pipe_write_end, "", 1);
  if (g_starting != 0) kill_children();
  errno = saved;
}

extern "C" void on_alarm(int) {
  const int saved = errno;
  g_start_ran_out = g_starting;
  if (g_starting != 0) kill_children();
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

StartWatch::StartWatch(std::chrono::seconds patience) {
  handle(SIGALRM, on_alarm);
  g_starting = 1;
  ::alarm(static_cast<unsigned>(patience.count()));
}

StartWatch::~StartWatch() {
  ::alarm(0);
  g_starting = 0;
}

bool StartWatch::ran_out() {
  return g_start_ran_out != 0;
}

}  // namespace startrail::supervise
