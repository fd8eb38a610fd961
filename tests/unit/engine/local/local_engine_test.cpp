#include "engine/local/local_engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "run/temporary_folder.hpp"

namespace startrail::engine::local {
namespace {

using run::State;
using testing::HasSubstr;

// With it supervisors are started from the program's file.
std::jthread another_thread() {
  return std::jthread([](const std::stop_token& end) {
    while (!end.stop_requested()) ::usleep(1000);
  });
}

class LocalEngine : public testing::Test {
 protected:
  LocalEngine()
      : store(run::RunStore::open(paths, {}).value()), engine(make_engine(paths, fs::read_symlink("/proc/self/exe"))) {
    fs::create_directories(folder / "code");
  }
  std::string create(const std::string& script, int grace = 30) {
    return store
        .create({.command = {"/bin/sh", "-c", script},
                 .workspace = folder / "code",
                 .isolation = "none",
                 .stop_grace_seconds = grace},
                {.created = base::now()})
        .value();
  }
  std::string log(const std::string& id) { return run::log_tail(store.directory(id), 1U << 20U); }
  void wait_for_log(const std::string& id, const std::string& text) {
    for (int i = 0; i < 2000 && log(id).find(text) == std::string::npos; ++i) ::usleep(5000);
    ASSERT_THAT(log(id), HasSubstr(text));
  }
  run::Status end_of(const std::string& id) { return run::follow(store, id, {}).value(); }

  TemporaryFolder folder;
  base::StatePaths paths{folder / "state"};
  run::RunStore store;
  std::unique_ptr<run::Engine> engine;
};

TEST_F(LocalEngine, submitting_returns_once_the_supervisor_has_the_run) {
  const std::string id = create("echo hello");
  ASSERT_TRUE(engine->submit(id));
  const auto status = run::read_status(store.directory(id)).value();
  EXPECT_NE(status.state, State::queued);
  EXPECT_NE(status.supervisor.pid, ::getpid());
  EXPECT_EQ(end_of(id).state, State::succeeded);
  EXPECT_EQ(log(id), "hello\n");
}

TEST_F(LocalEngine, the_run_outlives_its_submitter) {
  const std::string id = create("sleep 0.3; echo survived");
  const pid_t submitter = ::fork();
  if (submitter == 0) {
    ::setsid();
    ::_exit(engine->submit(id) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(submitter, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(end_of(id).state, State::succeeded);
  EXPECT_EQ(log(id), "survived\n");
}

TEST_F(LocalEngine, a_supervisor_holds_nothing_of_the_submitters) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);  // without O_CLOEXEC
  const std::string id = create("exec sleep 60");
  ASSERT_TRUE(engine->submit(id));
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the pipe is closed: nobody else has its write end";
  EXPECT_FALSE(run::is_final(run::read_status(store.directory(id))->state));
  const auto supervisor = run::read_status(store.directory(id))->supervisor.pid;
  EXPECT_EQ(::getsid(supervisor), supervisor);
  EXPECT_EQ(fs::read_symlink("/proc/" + std::to_string(supervisor) + "/cwd"), "/");
  ASSERT_TRUE(engine->stop(id, run::StopHow::at_once));
  end_of(id);
}

TEST_F(LocalEngine, a_supervisor_is_shown_with_its_run_also_when_it_began_as_a_copy) {
  const std::string id = create("exec sleep 60");
  ASSERT_TRUE(engine->submit(id));
  const auto supervisor = run::read_status(store.directory(id))->supervisor.pid;
  const std::string words = base::read_file("/proc/" + std::to_string(supervisor) + "/cmdline").value();
  EXPECT_THAT(words, testing::StartsWith("trail supervise " + store.directory(id).string())) << "one text: a copy";
  ASSERT_TRUE(engine->stop(id, run::StopHow::at_once));
  EXPECT_EQ(end_of(id).state, State::killed);
}

TEST_F(LocalEngine, a_submitter_with_threads_starts_its_supervisor_from_the_file) {
  const std::jthread beside = another_thread();
  const std::string id = create("exec sleep 60");
  ASSERT_TRUE(engine->submit(id));
  const auto supervisor = run::read_status(store.directory(id))->supervisor.pid;
  const std::string words = base::read_file("/proc/" + std::to_string(supervisor) + "/cmdline").value();
  EXPECT_THAT(words, HasSubstr(std::string("\0supervise\0", 11))) << "a command line of words of its own";
  ASSERT_TRUE(engine->stop(id, run::StopHow::at_once));
  EXPECT_EQ(end_of(id).state, State::killed);
}

TEST_F(LocalEngine, the_environment_reaches_a_run_whose_supervisor_began_as_a_copy) {
  ::setenv("HTTPS_PROXY", "http://127.0.0.1:9", 1);
  const std::string id = create("echo proxy=$HTTPS_PROXY");
  ASSERT_TRUE(engine->submit(id));
  ::unsetenv("HTTPS_PROXY");
  EXPECT_EQ(end_of(id).state, State::succeeded);
  EXPECT_EQ(log(id), "proxy=http://127.0.0.1:9\n");
}

TEST_F(LocalEngine, stopping_gracefully_is_recorded_with_who_asked) {
  const std::string id = create("trap 'echo saving; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
  ASSERT_TRUE(engine->submit(id));
  wait_for_log(id, "ready");
  ASSERT_TRUE(engine->stop(id, run::StopHow::gracefully));
  const auto status = end_of(id);
  EXPECT_EQ(status.state, State::stopped);
  EXPECT_THAT(status.cause, testing::StartsWith("stopped by "));
  EXPECT_THAT(log(id), HasSubstr("saving"));
}

TEST_F(LocalEngine, asking_gracefully_twice_is_asking_once) {
  const std::string id = create("trap 'sleep 0.4; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
  ASSERT_TRUE(engine->submit(id));
  wait_for_log(id, "ready");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine->stop(id, run::StopHow::gracefully));
  EXPECT_EQ(end_of(id).state, State::stopped);
  EXPECT_THAT(log(id), HasSubstr("saved"));
}

TEST_F(LocalEngine, stopping_at_once_ends_a_command_that_ignores_everything) {
  const std::string id = create("trap '' TERM INT HUP; echo ready; while :; do sleep 0.02; done");
  ASSERT_TRUE(engine->submit(id));
  wait_for_log(id, "ready");
  ASSERT_TRUE(engine->stop(id, run::StopHow::gracefully));
  ASSERT_TRUE(engine->stop(id, run::StopHow::at_once));
  EXPECT_EQ(end_of(id).state, State::killed);
}

TEST_F(LocalEngine, a_queued_run_is_stopped_without_a_supervisor_and_never_starts) {
  const std::string id = create("echo ran");
  ASSERT_TRUE(engine->stop(id, run::StopHow::gracefully));
  EXPECT_EQ(store.status(id)->state, State::stopped);
  const auto submitted = engine->submit(id);
  ASSERT_FALSE(submitted);
  EXPECT_EQ(submitted.error().code, ErrorCode::cancelled);
  EXPECT_EQ(store.status(id)->state, State::stopped);
  EXPECT_EQ(log(id), "");
}

TEST_F(LocalEngine, stopping_an_ended_or_dead_run_is_fine) {
  const std::string ended = create("true");
  ASSERT_TRUE(engine->submit(ended));
  end_of(ended);
  EXPECT_TRUE(engine->stop(ended, run::StopHow::at_once));
  EXPECT_EQ(store.status(ended)->state, State::succeeded);

  const std::string dead = create("echo ready; sleep 1000");
  ASSERT_TRUE(engine->submit(dead));
  wait_for_log(dead, "ready");
  ::kill(run::read_status(store.directory(dead))->supervisor.pid, SIGKILL);
  ::usleep(100'000);
  EXPECT_TRUE(engine->stop(dead, run::StopHow::at_once));
  EXPECT_EQ(store.status(dead)->state, State::lost);
}

TEST_F(LocalEngine, a_program_that_cannot_be_started_is_a_failed_run) {
  const std::jthread beside = another_thread();
  const auto broken = make_engine(paths, "/nonexistent/trail");
  const std::string id = create("true");
  const auto submitted = broken->submit(id);
  ASSERT_FALSE(submitted);
  EXPECT_EQ(submitted.error().code, ErrorCode::internal);
  EXPECT_EQ(store.status(id)->state, State::failed);
  EXPECT_EQ(store.status(id)->exit_code, 125);
}

TEST_F(LocalEngine, from_submission_to_the_end_of_true_no_timer_is_waited_for) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string id = create("true");
    ASSERT_TRUE(engine->submit(id));
    end_of(id);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::sort(times);
  std::printf("create, submit, run and end: %.1f ms (fastest of 5)\n", times.front());
  EXPECT_LT(times.front(), 200) << "a debug build on a busy machine, but no polling interval";
}

TEST_F(LocalEngine, a_run_of_another_machine_is_not_stopped_from_here_and_its_host_is_named) {
  const std::string id = create("true");
  run::Status status = run::read_status(store.directory(id)).value();
  status.state = State::running;
  status.supervisor.place.host = "node-17";
  write_test_file(store.directory(id) / run::k_state_file, base::to_pretty_text(run::to_json(status)));
  const auto stopped = engine->stop(id, run::StopHow::gracefully);
  ASSERT_FALSE(stopped);
  EXPECT_THAT(stopped.error().message, HasSubstr("node-17"));
  EXPECT_THAT(stopped.error().hints.at(0), HasSubstr("ssh node-17 trail stop " + id));
  EXPECT_FALSE(run::read_stop_request(store.directory(id)));
}

}  // namespace
}  // namespace startrail::engine::local
