#include "supervise/supervise.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/json.hpp"
#include "run/durable.hpp"
#include "supervise/container_plan.hpp"
#include "supervise/descendants.hpp"
#include "supervise/end_signals.hpp"
#include "supervise/findings.hpp"
#include "supervise/gpu_release.hpp"
#include "supervise/own_mounts.hpp"
#include "supervise/verdict.hpp"
#include "supervise/watch.hpp"

namespace startrail::supervise {
namespace {

constexpr int k_could_not_start = 125;  // DESIGN, "The command line"
constexpr std::size_t k_tail_for_cause = 64U << 10U;
constexpr int k_pipe_size = 1 << 20;
constexpr std::chrono::milliseconds k_gpu_patience{5000};
constexpr std::chrono::seconds k_start_patience{300};
constexpr std::chrono::seconds k_sync_after{1};
constexpr int k_verdict_attempts = 300;  // a second apart: somebody may make room on the disk

// Own session, nothing of the submitter's terminal; what is printed by us or by libraries goes to supervisor.log.
Result<void> leave_terminal(const fs::path& directory) {
  ::setsid();
  const base::Fd log =
      TRY(base::open_file(directory / run::k_supervisor_log_file, O_WRONLY | O_CREAT | O_APPEND, 0600));
  const base::Fd nothing = TRY(base::open_file("/dev/null", O_RDONLY));
  if (::dup2(nothing.get(), 0) < 0 || ::dup2(log.get(), 1) < 0 || ::dup2(log.get(), 2) < 0)
    return fail(base::errno_error("cannot leave the terminal", errno));
  return catch_end_signals();
}

void say(std::string_view text) {
  const std::string line = fmt::format("{} {}\n", base::to_text(base::now()), text);
  [[maybe_unused]] const auto written = base::write_all(2, line, run::k_supervisor_log_file);
}

void tell_submitter() {
  const auto descriptor = base::environment_variable(k_ready_variable);
  ::unsetenv(k_ready_variable);
  if (!descriptor) return;
  const base::Fd fd(std::atoi(descriptor->c_str()));
  [[maybe_unused]] const auto written = ::write(fd.get(), "r", 1);
}

struct Pipes {
  Outputs ours;
  base::Fd output, errors;  // the command's ends
};

// Readable and writable for whoever the command runs as: it may open /dev/stdout by name.
Result<Pipes> make_pipes() {
  std::array<int, 2> output{}, errors{};
  if (::pipe2(output.data(), O_CLOEXEC) != 0 || ::pipe2(errors.data(), O_CLOEXEC) != 0)
    return fail(base::errno_error("cannot create the pipes for the log", errno));
  for (const int fd : {output[1], errors[1]}) {
    ::fchmod(fd, 0666);
    ::fcntl(fd, F_SETPIPE_SZ, k_pipe_size);  // best effort: pipe(7), pipe-max-size
  }
  return Pipes{
      .ours = {base::Fd(output[0]), base::Fd(errors[0])}, .output = base::Fd(output[1]), .errors = base::Fd(errors[1])};
}

void write_container_file(const fs::path& directory, const sandbox::Support& support,
                          const sandbox::Container& container) {
  const sandbox::Identity& identity = container.identity();
  // Whoever starts an instance again waits for this process's end, when its supervisor could not.
  const auto init = base::process_identity(container.pid());
  const Json json{{"runtime", support.runtime_name},
                  {"runtime_version", support.runtime_version},
                  {"limits_by", support.limits_by},
                  {"uid", identity.uid},
                  {"gid", identity.gid},
                  {"host_uid", identity.host_uid},
                  {"host_gid", identity.host_gid},
                  {"user", identity.user_name},
                  {"init_pid", container.pid()},
                  {"init_start_ticks", init ? init->start_ticks : 0},
                  {"how", identity.how},
                  {"notes", container.notes()}};
  [[maybe_unused]] const auto written =
      base::write_file_atomic(directory / run::k_container_file, base::to_pretty_text(json));
}

// One run under supervision, from its taking over to its final state.
class Supervision {
 public:
  explicit Supervision(const fs::path& directory)
      : m_place{.paths = {directory.parent_path().parent_path()},
                .directory = directory,
                .host = machine::host_paths_from_environment(),
                .spec = {}} {}

  Result<void> take_over() {
    m_status = TRY(run::read_status(m_place.directory));
    m_status.supervisor = TRY(base::process_identity(::getpid()));
    m_status.started = base::now();
    TRY(enter(run::State::preparing));
    tell_submitter();
    return {};
  }

  // An error here means that the command never ran.
  Result<void> run() {
    const Json json = TRY(base::read_json_file(m_place.directory / run::k_spec_file));
    m_place.spec = TRY(run::run_spec_from_json(json));
    const auto machine = machine::survey(m_place.host, m_place.paths.root, machine::Depth::quick);
    const ContainerPlan plan = TRY(plan_container(m_place, machine));
    auto log = TRY(run::LogWriter::open(m_place.directory));
    auto pipes = TRY(make_pipes());
    const auto holders_before = gpu_holders(m_place.host, m_place.spec.gpus);
    if (const Urgency urgency = end_urgency(); urgency != Urgency::none) {
      end_before_start(urgency);
      return {};
    }
    auto result = TRY(run_command(plan, pipes, log));
    finish(result, machine, holders_before);
    return {};
  }

  void fail_to_start(Error reason) {
    kill_descendants();
    // A runtime that was killed because somebody asked for the end did not fail.
    if (const Urgency urgency = end_urgency(); urgency != Urgency::none && !m_status.running)
      return end_before_start(urgency);
    say("could not start: " + base::to_text(reason) + (reason.detail.empty() ? "" : "\n" + reason.detail));
    m_status.state = run::State::failed;
    m_status.exit_code = k_could_not_start;
    m_status.cause = run::one_line(reason.message);
    m_status.error = std::move(reason);
    end();
  }

 private:
  Result<void> enter(run::State state) {
    m_status.state = state;
    return run::write_status(m_place.directory, m_status);
  }

  Result<WatchResult> run_command(const ContainerPlan& plan, Pipes& pipes, run::LogWriter& log) {
    auto container = TRY(start(plan, pipes));
    pipes.output.reset();
    pipes.errors.reset();
    m_status.running = base::now();
    note_failure(enter(run::State::running));
    write_container_file(m_place.directory, plan.support, container);
    m_run_user = plan.support.mode == sandbox::Mode::root ? container.identity().host_uid : ::geteuid();
    make_durable_meanwhile();
    const WatchOptions options{
        .grace = std::chrono::seconds(m_place.spec.stop_grace_seconds),
        .memory_limit = plan.support.cgroup_limits ? std::nullopt : m_place.spec.limits.memory,
        .isolated = plan.support.mode != sandbox::Mode::none,
        .ends_at_once = plan.support.mode != sandbox::Mode::none && m_place.spec.gpus.empty(),
        .on_ending = [this] { note_failure(enter(run::State::ending)); },
    };
    return watch(container, std::move(pipes.ours), log, options);
  }

  static Result<sandbox::Container> start(const ContainerPlan& plan, const Pipes& pipes) {
    const StartWatch watch(k_start_patience);
    auto container = sandbox::Container::start(
        plan.support, plan.spec, {.input = -1, .output = pipes.output.get(), .errors = pipes.errors.get()});
    if (!container && StartWatch::ran_out())
      return fail(base::error(ErrorCode::unsupported,
                              fmt::format("the container did not start within {}", base::to_text(k_start_patience)))
                      .with_context(container.error().message)
                      .with_hint("look whether the disks and file servers of the workspace and the mounts answer"));
    return container;
  }

  // Stopped between submission and start.
  void end_before_start(Urgency urgency) {
    judge(m_status, {.asked = urgency}, m_place.spec, run::read_stop_request(m_place.directory), "");
    m_status.exit_code.reset();
    m_status.cause += " before it started";
    end();
  }

  void finish(const WatchResult& result, const machine::Machine& machine,
              const std::vector<machine::GpuProcess>& holders_before) {
    judge(m_status, result, m_place.spec, run::read_stop_request(m_place.directory),
          run::log_tail(m_place.directory, k_tail_for_cause));
    if (result.asked == Urgency::none && m_status.state != run::State::succeeded)
      m_status.findings = findings_in_log(m_place.directory, m_status.cause, machine);
    for (auto& remark :
         holders_after(m_place.host, m_place.spec.gpus, holders_before, m_place.spec.id, m_run_user, k_gpu_patience))
      m_status.remarks.push_back(std::move(remark));
    end();
  }

  // The start waits for no disk; from here on the record and the code's snapshot are on their way there. By a thread:
  // a slow disk must not keep the output waiting. The command runs already, so this process may have more than one.
  void make_durable_meanwhile() {
    m_syncing = std::jthread([this](const std::stop_token& ended) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      // A run of moments is spared the disk's attention until it has its verdict.
      std::condition_variable_any().wait_for(lock, ended, k_sync_after, [] { return false; });
      if (ended.stop_requested()) return;
      run::make_record_durable(m_place.directory);
      run::make_snapshot_durable(m_place.paths.snapshots(), m_place.spec.snapshot);
      m_snapshot_is_durable = true;
    });
  }

  void make_durable() {
    m_syncing = {};
    run::make_record_durable(m_place.directory);
    if (!m_snapshot_is_durable) run::make_snapshot_durable(m_place.paths.snapshots(), m_place.spec.snapshot);
  }

  // The state first: unmounting and removing take longer than everything else at the end, and nobody need wait for
  // them. Who is killed in between leaves it to RunStore::status.
  void end() {
    m_status.ended = base::now();
    auto written = run::write_status(m_place.directory, m_status);
    note_failure(written);
    tidy_up();
    // A command that filled the disk leaves no room for its own verdict, until its scratch is gone.
    for (int attempt = 0; may_succeed_later(written) && attempt < k_verdict_attempts; ++attempt) {
      if (attempt > 0) ::sleep(1);
      written = run::write_status(m_place.directory, m_status);
    }
    note_failure(written);
    make_durable();
  }

  void tidy_up() {
    detach_mounts_below(m_place.scratch());
    note_failure(base::remove_tree(m_place.directory / run::k_temp_folder));
    if (m_place.spec.scratch_after == sandbox::Scratch::discarded) note_failure(base::remove_tree(m_place.scratch()));
  }

  // A conflict is somebody else's verdict, which stays.
  static bool may_succeed_later(const Result<void>& written) {
    return !written && written.error().code != ErrorCode::conflict;
  }

  // The run goes on without: what could not be written is said where somebody may look.
  static void note_failure(const Result<void>& done) {
    if (!done) say(base::to_text(done.error()));
  }

  RunPlace m_place;
  run::Status m_status;
  uid_t m_run_user = 0;
  bool m_snapshot_is_durable = false;  // written by m_syncing, read when it has ended
  std::jthread m_syncing;
};

}  // namespace

int supervise_main(const fs::path& run_directory) {
  const fs::path directory = fs::absolute(run_directory).lexically_normal();
  if (const auto left = leave_terminal(directory); !left) return base::exit_code(left.error().code);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  Supervision supervision(directory);
  if (const auto taken = supervision.take_over(); !taken) {
    say("cannot take the run over: " + base::to_text(taken.error()));
    return base::exit_code(taken.error().code);
  }
  if (auto done = supervision.run(); !done) supervision.fail_to_start(std::move(done).error());
  return 0;
}

}  // namespace startrail::supervise
