#include "sandbox/linux/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "init/protocol.hpp"

namespace startrail::sandbox {
namespace {

using base::errno_error;
using base::Fd;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

struct Prepared {
  const Launch& launch;
  std::array<int, 4> descriptors;  // what becomes 0, 1, 2 and init::k_socket
  char** arguments;
  char** environment;
  int failure;
};

bool place_descriptors(const Prepared& prepared) {
  constexpr int k_clear = 16;
  // First out of the way of the numbers they go to, then into place.
  std::array<int, 4> high{};
  for (std::size_t i = 0; i < high.size(); ++i) {
    high[i] = ::fcntl(prepared.descriptors[i], F_DUPFD_CLOEXEC, k_clear);
    if (high[i] < 0) return false;
  }
  for (std::size_t i = 0; i < high.size(); ++i) {
    if (::dup2(high[i], static_cast<int>(i)) < 0) return false;
  }
  return true;
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void execute(const Prepared& prepared) {
  static_assert(init::k_socket == 3);
  const int failure = ::fcntl(prepared.failure, F_DUPFD_CLOEXEC, 64);
  reset_signals();
  if (place_descriptors(prepared) &&
      ::syscall(SYS_close_range, init::k_socket + 1, ~0U, 1U << 2U /* CLOSE_RANGE_CLOEXEC */) == 0 &&
      (!prepared.launch.directory || ::chdir(prepared.launch.directory->c_str()) == 0))
    ::execve(prepared.launch.program.c_str(), prepared.arguments, prepared.environment);
  const int reason = errno;
  [[maybe_unused]] const auto ignored = ::write(failure, &reason, sizeof reason);
  ::_exit(127);
}

}  // namespace

Result<pid_t> launch(const Launch& launch) {
  const Fd nothing = TRY(base::open_file("/dev/null", O_RDWR));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno_error("cannot create a pipe", errno));
  const Fd failure_read(ends[0]);
  Fd failure_write(ends[1]);
  const auto or_nothing = [&](int fd) { return fd >= 0 ? fd : nothing.get(); };
  auto argument_words = launch.arguments;
  auto environment_words = launch.environment;
  auto arguments = pointers(argument_words);
  auto environment = pointers(environment_words);
  const Prepared prepared{.launch = launch,
                          .descriptors = {or_nothing(launch.stdio.input), or_nothing(launch.stdio.output),
                                          or_nothing(launch.stdio.errors), launch.socket},
                          .arguments = arguments.data(),
                          .environment = environment.data(),
                          .failure = failure_write.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return fail(errno_error("cannot start a process", errno));
  if (pid == 0) execute(prepared);
  failure_write.reset();
  int reason = 0;
  if (::read(failure_read.get(), &reason, sizeof reason) != sizeof reason) return pid;
  [[maybe_unused]] const auto status = wait_for(pid);
  return fail(errno_error(fmt::format("cannot run {}", launch.program.string()), reason));
}

Result<int> wait_for(pid_t pid) {
  int status = 0;
  for (;;) {
    if (::waitpid(pid, &status, __WALL) == pid) return status;
    if (errno != EINTR) return fail(errno_error(fmt::format("cannot wait for process {}", pid), errno));
  }
}

}  // namespace startrail::sandbox
