#include "app/follow_run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "engine/local/local_engine.hpp"
#include "run/follow.hpp"

namespace startrail::app {
namespace {

constexpr int k_exit_could_not_start = 125;  // as `docker run` uses it
constexpr int k_exit_killed = 128 + SIGKILL;

constexpr char k_interrupted = 'i';
constexpr char k_reader_gone = 'r';

// The handler may only write to a pipe (signal-safety(7)); whoever follows reads it.
std::array<int, 2> g_wake{-1, -1};

bool open_wake_pipe() {
  return g_wake[0] >= 0 || ::pipe2(g_wake.data(), O_CLOEXEC | O_NONBLOCK) == 0;
}

void wake(char reason) {
  [[maybe_unused]] const auto ignored = ::write(g_wake[1], &reason, 1);
}

void note_interrupt(int /*signal*/) {
  const int saved = errno;
  wake(k_interrupted);
  errno = saved;
}

class Interrupts {
 public:
  Interrupts(const Installation& installation, const std::string& id, const FollowOptions& options)
      : m_installation(installation), m_id(id), m_options(options) {}

  run::FollowOptions::AfterWake take() {
    char reason = 0;
    while (::read(g_wake[0], &reason, 1) == 1) {
      if (reason == k_reader_gone) return run::FollowOptions::AfterWake::leave;
      pass_on();
    }
    return run::FollowOptions::AfterWake::go_on;
  }

 private:
  void pass_on() {
    const bool first = ++m_count == 1;
    say(first ? "stopping … (Ctrl-C again kills it)" : "killing …");
    const auto engine = engine::local::make_engine(m_installation.paths, m_installation.program);
    auto asked = engine->stop(m_id, first ? run::StopHow::gracefully : run::StopHow::at_once);
    if (!asked) say(asked.error().message);
  }
  void say(std::string_view text) const {
    if (m_options.on_message) m_options.on_message(text);
  }

  const Installation& m_installation;
  const std::string& m_id;
  const FollowOptions& m_options;
  int m_count = 0;
};

}  // namespace

void catch_interrupts() {
  if (!open_wake_pipe()) return;
  struct sigaction action{};
  action.sa_handler = note_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

Result<Followed> follow_run(const Installation& installation, run::RunStore& store, const std::string& id,
                            const FollowOptions& options) {
  Followed followed;
  Interrupts interrupts(installation, id, options);
  run::FollowOptions watched;
  if (open_wake_pipe()) watched.wake_descriptor = g_wake[0];
  watched.on_wake = [&] { return interrupts.take(); };
  watched.last_lines = options.tail;
  watched.on_chunk = [&](const run::LogChunk& chunk) {
    if (followed.reader_gone || !options.on_chunk || options.on_chunk(chunk)) return;
    followed.reader_gone = true;
    wake(k_reader_gone);
  };
  followed.status = TRY(run::follow(store, id, watched));
  return followed;
}

int exit_status(const run::Status& status) {
  if (status.exit_code && *status.exit_code != 0) return *status.exit_code;
  if (status.signal && *status.signal != 0) return 128 + *status.signal;
  if (status.state == run::State::succeeded || status.exit_code) return 0;
  if (!status.running) return k_exit_could_not_start;
  return k_exit_killed;
}

}  // namespace startrail::app
