#include "supervise/watch.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include "supervise/descendants.hpp"

namespace startrail::supervise {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds k_memory_interval{200};
// After everybody is dead the pipes hold at most their buffers; only a descriptor passed out of the container keeps
// them open.
constexpr std::chrono::milliseconds k_drain_patience{2000};
constexpr std::size_t k_read_size = 256U << 10U;

class Watcher {
 public:
  Watcher(sandbox::Container& container, Outputs outputs, run::LogWriter& log, const WatchOptions& options)
      : m_container(container), m_outputs(std::move(outputs)), m_log(log), m_options(options) {}

  Result<WatchResult> run() {
    if (m_options.memory_limit) m_next_memory_look = Clock::now() + k_memory_interval;
    while (!m_ended) wait_once(true);
    if (!m_options.ends_at_once) ending();
    m_result.ended = TRY(m_container.wait());
    // Without a PID namespace, init's end is not everybody's.
    if (!m_options.isolated) kill_descendants();
    if (m_result.memory_limit_reached) m_result.ended.out_of_memory = true;
    drain();
    [[maybe_unused]] const auto whole = m_log.finish();
    return m_result;
  }

 private:
  void ending() {
    if (!m_said_ending && m_options.on_ending) m_options.on_ending();
    m_said_ending = true;
  }

  [[nodiscard]] int timeout(std::optional<Clock::time_point> until) const {
    for (const auto& moment : {m_next_memory_look, m_kill_at})
      if (moment && (!until || *moment < *until)) until = moment;
    if (!until) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now());
    return static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
  }

  void wait_once(bool command_lives, std::optional<Clock::time_point> until = {}) {
    std::array<pollfd, 4> fds{{{m_outputs.output.get(), POLLIN, 0},
                               {m_outputs.errors.get(), POLLIN, 0},
                               {command_lives ? end_signal_descriptor() : -1, POLLIN, 0},
                               {command_lives ? m_container.pid_descriptor() : -1, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), timeout(until)) < 0) return;
    if (fds[0].revents != 0) take(m_outputs.output, run::LogWriter::Stream::output);
    if (fds[1].revents != 0) take(m_outputs.errors, run::LogWriter::Stream::errors);
    if (!command_lives) return;
    if (fds[2].revents != 0) obey();
    look_at_clock();
    m_ended = fds[3].revents != 0;
  }

  // A log that can't be written (a full disk) must not block the command: its output is read on and dropped.
  void take(base::Fd& fd, run::LogWriter::Stream stream) {
    const ssize_t count = ::read(fd.get(), m_buffer.data(), m_buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) return fd.reset();
    [[maybe_unused]] const auto kept = m_log.append(stream, {m_buffer.data(), static_cast<std::size_t>(count)});
  }

  void obey() {
    const Urgency urgency = end_urgency();
    if (urgency == Urgency::none || urgency == m_result.asked) return;
    m_result.asked = urgency;
    ending();
    if (urgency == Urgency::at_once) return kill();
    [[maybe_unused]] const auto told = m_container.signal(SIGTERM);
    m_kill_at = Clock::now() + m_options.grace;
  }

  void look_at_clock() {
    const auto now = Clock::now();
    if (m_kill_at && now >= *m_kill_at) {
      m_result.grace_ran_out = true;
      kill();
    }
    if (m_next_memory_look && now >= *m_next_memory_look) {
      m_next_memory_look = now + k_memory_interval;
      look_at_memory();
    }
  }

  void look_at_memory() {
    const bool over = m_options.isolated ? m_container.enforce_memory_limit()
                                         : memory_of_descendants(*m_options.memory_limit) > *m_options.memory_limit;
    if (!over) return;
    m_result.memory_limit_reached = true;
    kill();
  }

  void kill() {
    m_container.kill();
    m_kill_at.reset();
    m_next_memory_look.reset();
  }

  void drain() {
    m_kill_at.reset();
    m_next_memory_look.reset();
    const auto deadline = Clock::now() + k_drain_patience;
    while ((m_outputs.output.valid() || m_outputs.errors.valid()) && Clock::now() < deadline)
      wait_once(false, deadline);
  }

  sandbox::Container& m_container;
  Outputs m_outputs;
  run::LogWriter& m_log;
  const WatchOptions& m_options;
  WatchResult m_result;
  std::string m_buffer = std::string(k_read_size, '\0');
  std::optional<Clock::time_point> m_next_memory_look, m_kill_at;
  bool m_ended = false;
  bool m_said_ending = false;
};

}  // namespace

Result<WatchResult> watch(sandbox::Container& container, Outputs outputs, run::LogWriter& log,
                          const WatchOptions& options) {
  return Watcher(container, std::move(outputs), log, options).run();
}

}  // namespace startrail::supervise
