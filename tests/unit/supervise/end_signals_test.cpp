#include "supervise/end_signals.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace startrail::supervise {
namespace {

// A process that waits, as a supervisor does for a runtime that hangs; its exit code is what `judge` says of the wait.
template <class Judge>
pid_t start_waiting(std::chrono::seconds patience, const Judge& judge) {
  const pid_t waiting = ::fork();
  if (waiting != 0) return waiting;
  if (!catch_end_signals()) ::_exit(9);
  const StartWatch watch(patience);
  const pid_t runtime = ::fork();
  if (runtime == 0) {
    ::setpgid(0, 0);
    for (;;) ::pause();
  }
  int status = 0;
  while (::waitpid(runtime, &status, 0) < 0) {
  }
  ::_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && judge() ? 0 : 1);
}

int exit_status_of(pid_t pid) {
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

TEST(StartWatch, a_signal_ends_what_is_waited_for) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const pid_t waiting = start_waiting(std::chrono::seconds(60),
                                        [] { return end_urgency() != Urgency::none && !StartWatch::ran_out(); });
    ::usleep(200'000);
    ::kill(waiting, signal);
    EXPECT_EQ(exit_status_of(waiting), 0) << signal;
  }
}

TEST(StartWatch, so_does_the_end_of_patience) {
  const pid_t waiting =
      start_waiting(std::chrono::seconds(1), [] { return end_urgency() == Urgency::none && StartWatch::ran_out(); });
  EXPECT_EQ(exit_status_of(waiting), 0);
}

TEST(StartWatch, once_it_is_gone_children_are_left_alone) {
  const pid_t process = ::fork();
  if (process == 0) {
    if (!catch_end_signals()) ::_exit(9);
    {
      const StartWatch watch(std::chrono::seconds(1));
    }
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) ::pause();
    ::raise(SIGTERM);
    ::usleep(1'200'000);
    const bool lives = ::waitpid(child, nullptr, WNOHANG) == 0;
    ::kill(child, SIGKILL);
    ::_exit(lives ? 0 : 1);
  }
  EXPECT_EQ(exit_status_of(process), 0);
}

}  // namespace
}  // namespace startrail::supervise
