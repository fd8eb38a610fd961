#include "run/follow.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "run/temporary_folder.hpp"

namespace startrail::run {
namespace {

class Follow : public testing::Test {
 protected:
  Follow() : store(RunStore::open(paths, {}).value()) {
    id = store.create({.command = {"true"}, .workspace = "/", .isolation = "none"}, {.created = base::now()}).value();
  }
  // A stand-in for the supervisor: another process that writes what one writes.
  pid_t supervise(const std::function<void(LogWriter&)>& body) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    Status status{.state = State::preparing, .supervisor = base::process_identity(::getpid()).value()};
    (void)write_status(store.directory(id), status);
    status.state = State::running;
    (void)write_status(store.directory(id), status);
    auto writer = LogWriter::open(store.directory(id)).value();
    body(writer);
    status.state = State::ending;
    (void)write_status(store.directory(id), status);
    status.state = State::succeeded;
    status.exit_code = 0;
    (void)write_status(store.directory(id), status);
    ::_exit(0);
  }
  FollowOptions collecting() {
    return {.on_chunk = [this](const LogChunk& chunk) { text += chunk.data; },
            .on_status = [this](const Status& status) { states.push_back(status.state); }};
  }
  TemporaryFolder folder;
  base::StatePaths paths{folder / "state"};
  RunStore store;
  std::string id, text;
  std::vector<State> states;
};

TEST_F(Follow, hands_out_every_byte_and_returns_with_the_end) {
  std::string expected;
  for (int i = 0; i < 2000; ++i) expected += std::to_string(i) + "\n";
  const pid_t pid = supervise([](LogWriter& writer) {
    for (int i = 0; i < 2000; ++i) {
      (void)writer.append(LogWriter::Stream::output, std::to_string(i) + "\n");
      if (i % 100 == 0) ::usleep(1000);
    }
  });
  const Status status = follow(store, id, collecting()).value();
  EXPECT_EQ(status.state, State::succeeded);
  EXPECT_EQ(text, expected);
  EXPECT_EQ(states.back(), State::succeeded);
  ::waitpid(pid, nullptr, 0);
}

// Nanoseconds between a supervisor's last act and the return of `follow`. A busy machine may add a scheduling delay to
// one try; a polling interval would add itself to every one of them.
TEST_F(Follow, notices_the_end_at_once) {
  auto shortest = std::chrono::steady_clock::duration::max().count();
  for (int tries = 0; tries < 5 && shortest > 20'000'000; ++tries) {
    id = store.create({.command = {"true"}, .workspace = "/", .isolation = "none"}, {.created = base::now()}).value();
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t pid = supervise([&](LogWriter&) {
      ::usleep(400'000);  // past the first moments, which are polled
      const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
      (void)!::write(ends[1], &now, sizeof now);
    });
    ASSERT_TRUE(follow(store, id, collecting()));
    const auto after = std::chrono::steady_clock::now().time_since_epoch().count();
    std::chrono::steady_clock::rep before = 0;
    ASSERT_EQ(::read(ends[0], &before, sizeof before), static_cast<ssize_t>(sizeof before));
    shortest = std::min(shortest, after - before);
    ::waitpid(pid, nullptr, 0);
  }
  EXPECT_LT(shortest, 80'000'000) << "a polling interval lies between the end and its notice";
}

TEST_F(Follow, a_supervisor_that_is_killed_makes_the_run_lost_with_its_last_words) {
  const pid_t pid = supervise([](LogWriter& writer) {
    (void)writer.append(LogWriter::Stream::output, "last words");
    ::usleep(100'000);
    ::raise(SIGKILL);
  });
  // Reaped by somebody else in real life; a zombie counts as dead.
  const Status status = follow(store, id, collecting()).value();
  EXPECT_EQ(status.state, State::lost);
  EXPECT_EQ(text, "last words");
  ::waitpid(pid, nullptr, 0);
}

TEST_F(Follow, of_an_ended_run_gives_its_last_lines) {
  const pid_t pid = supervise([](LogWriter& writer) { (void)writer.append(LogWriter::Stream::errors, "a\nb\nc\n"); });
  ::waitpid(pid, nullptr, 0);
  auto options = collecting();
  options.last_lines = 2;
  EXPECT_EQ(follow(store, id, options)->state, State::succeeded);
  EXPECT_EQ(text, "b\nc\n");
}

TEST_F(Follow, leaves_when_it_is_woken_and_told_so) {
  const pid_t pid = supervise([](LogWriter&) { ::usleep(300'000); });
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  auto options = collecting();
  int woken = 0;
  options.wake_descriptor = ends[0];
  options.on_wake = [&] {
    ++woken;
    return FollowOptions::AfterWake::leave;
  };
  const Status status = follow(store, id, options).value();
  EXPECT_FALSE(is_final(status.state));
  EXPECT_EQ(woken, 1);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace startrail::run
