#include "engine/local/local_engine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "engine/local/own_process.hpp"
#include "supervise/supervise.hpp"

namespace startrail::engine::local {
namespace {

constexpr int k_ready_descriptor = 3;
// A supervisor may have 25 MB, of which the program itself is half.
constexpr Bytes k_most_inherited{8U << 20U};

std::string caller_name() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? fmt::format("uid {}", ::getuid()) : std::string(entry->pw_name);
}

// The supervisor goes on in a copy of this process's memory, which spares a warm start loading the program once
// more (3 ms of 45). Not where other threads may hold locks that nobody in the copy would release.
enum class Start { as_a_copy, from_the_file };

Start how_to_start() {
  const auto size = own_size();
  return size && size->threads == 1 && size->anonymous <= k_most_inherited ? Start::as_a_copy : Start::from_the_file;
}

// Everything that a child started from the file needs, made before the fork: with other threads in this process only
// async-signal-safe calls are allowed afterwards.
struct Launch {
  fs::path run_directory;
  Start how = how_to_start();
  std::vector<std::string> argument_words, environment_words;
  std::vector<char*> arguments, environment;
  int nothing = -1;
  int ready = -1;

  Launch(const fs::path& program, const fs::path& directory)
      : run_directory(directory), argument_words{program.string(), "supervise", directory.string()} {
    auto variables = base::current_environment();
    variables[supervise::k_ready_variable] = std::to_string(k_ready_descriptor);
    for (const auto& [key, value] : variables) environment_words.push_back(key + "=" + value);
    for (auto& word : argument_words) arguments.push_back(word.data());
    for (auto& word : environment_words) environment.push_back(word.data());
    arguments.push_back(nullptr);
    environment.push_back(nullptr);
  }
};

void restore_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Nothing of the submitter's call may go on in the copy, whatever happens: so no exception leaves it.
[[noreturn]] void supervise_in_copy(const Launch& launch) noexcept {
  show_as(fmt::format("trail supervise {}", launch.run_directory.string()));
  ::setenv(supervise::k_ready_variable, std::to_string(k_ready_descriptor).c_str(), 1);
  ::_exit(supervise::supervise_main(launch.run_directory));
}

[[noreturn]] void become_supervisor(const Launch& launch) {
  restore_signals();
  const int ready = ::fcntl(launch.ready, F_DUPFD_CLOEXEC, 16);
  const int nothing = ::fcntl(launch.nothing, F_DUPFD_CLOEXEC, 16);
  for (const int fd : {0, 1, 2}) ::dup2(nothing, fd);
  ::dup2(ready, k_ready_descriptor);
  ::syscall(SYS_close_range, k_ready_descriptor + 1, ~0U, 0);
  // The folder the user stands in may be removed or unmounted while the run goes on.
  if (::chdir("/") != 0) ::_exit(127);
  if (launch.how == Start::as_a_copy) supervise_in_copy(launch);
  ::execve(launch.arguments[0], launch.arguments.data(), launch.environment.data());
  ::_exit(127);
}

// Twice, so that the supervisor is nobody's child and is reaped by the system.
Result<void> start_detached(const Launch& launch) {
  const pid_t between = ::fork();
  if (between < 0) return fail(base::errno_error("cannot start the run's supervisor", errno));
  if (between == 0) {
    ::setsid();
    const pid_t supervisor = ::fork();
    if (supervisor == 0) become_supervisor(launch);
    ::_exit(supervisor < 0 ? 1 : 0);
  }
  int status = 0;
  while (::waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return {};
  return fail(ErrorCode::internal, "cannot start the run's supervisor: the system allows no more processes");
}

bool wait_until_ready(const base::Fd& ready) {
  char byte = 0;
  ssize_t count = 0;
  while ((count = ::read(ready.get(), &byte, 1)) < 0 && errno == EINTR) {
  }
  return count == 1;
}

Error elsewhere(const base::ProcessIdentity& identity, const std::string& run_id) {
  if (identity.place.host != base::process_place().host)
    return base::error(ErrorCode::refused,
                       fmt::format("run {} runs on another machine, {}", run_id, identity.place.host))
        .with_hint(fmt::format("stop it there: ssh {} trail stop {}", identity.place.host, run_id));
  return base::error(ErrorCode::refused, fmt::format("run {} runs in another container of this machine", run_id))
      .with_hint(fmt::format("stop it from there: trail stop {}", run_id));
}

// By descriptor, checked after it was had: a later process may get the same number.
Result<void> signal_process(const base::ProcessIdentity& identity, int signal) {
  const base::Fd process(static_cast<int>(::syscall(SYS_pidfd_open, identity.pid, 0)));
  if (!process.valid() || !base::is_alive(identity)) return {};
  if (::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0 || errno == ESRCH) return {};
  return fail(base::errno_error(fmt::format("cannot signal the run's supervisor (pid {})", identity.pid), errno));
}

class LocalEngine final : public run::Engine {
 public:
  LocalEngine(base::StatePaths paths, fs::path program) : m_paths(std::move(paths)), m_program(std::move(program)) {}

  Result<void> submit(const std::string& run_id) override {
    const fs::path directory = m_paths.runs() / run_id;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(base::errno_error("cannot create a pipe", errno));
    const base::Fd ready(ends[0]);
    base::Fd supervisors_end(ends[1]);
    const base::Fd nothing = TRY(base::open_file("/dev/null", O_RDWR));
    Launch launch(m_program, directory);
    launch.nothing = nothing.get();
    launch.ready = supervisors_end.get();
    TRY(start_detached(launch));
    supervisors_end.reset();
    if (wait_until_ready(ready)) return {};
    return never_started(directory);
  }

  Result<void> stop(const std::string& run_id, run::StopHow how) override {
    const fs::path directory = m_paths.runs() / run_id;
    const run::Status status = TRY(run::read_status(directory));
    if (run::is_final(status.state)) return {};
    const bool gracefully = how == run::StopHow::gracefully;
    if (!base::is_of_here(status.supervisor)) return fail(elsewhere(status.supervisor, run_id));
    // It was asked already: a second SIGTERM would mean "at once".
    if (gracefully && run::read_stop_request(directory)) return {};
    TRY(run::write_stop_request(directory, {.how = how, .by = caller_name(), .at = base::now()}));
    if (status.state == run::State::queued) return stop_before_start(directory, how);
    return signal_process(status.supervisor, gracefully ? SIGTERM : SIGINT);
  }

 private:
  // A stopped run that was stopped before its supervisor came is no failure of the start.
  static Result<void> never_started(const fs::path& directory) {
    run::Status status = TRY(run::read_status(directory));
    if (run::is_final(status.state))
      return fail(ErrorCode::cancelled, fmt::format("run {} was {} before it started", directory.filename().string(),
                                                    run::name(status.state)));
    Error reason =
        base::error(ErrorCode::internal, "the run's supervisor could not be started")
            .with_context("its own words, if any, are in " + (directory / run::k_supervisor_log_file).string());
    status.state = run::State::failed;
    status.exit_code = 125;
    status.ended = base::now();
    status.cause = reason.message;
    status.error = reason;
    TRY(run::write_status(directory, status));
    return fail(std::move(reason));
  }

  static Result<void> stop_before_start(const fs::path& directory, run::StopHow how) {
    run::Status status = TRY(run::read_status(directory));
    status.state = how == run::StopHow::gracefully ? run::State::stopped : run::State::killed;
    status.cause = fmt::format("{} by {} before it started", run::name(status.state), caller_name());
    status.ended = base::now();
    const auto written = run::write_status(directory, status);
    if (written || written.error().code != ErrorCode::conflict) return written;
    // Its supervisor came in between.
    const run::Status now = TRY(run::read_status(directory));
    if (run::is_final(now.state)) return {};
    return signal_process(now.supervisor, how == run::StopHow::gracefully ? SIGTERM : SIGINT);
  }

  base::StatePaths m_paths;
  fs::path m_program;
};

}  // namespace

std::unique_ptr<run::Engine> make_engine(const base::StatePaths& paths, fs::path program) {
  return std::make_unique<LocalEngine>(paths, std::move(program));
}

}  // namespace startrail::engine::local
