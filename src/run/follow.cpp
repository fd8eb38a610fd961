#include "run/follow.hpp"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>

namespace startrail::run {
namespace {

constexpr int k_patience_ms = 1000;         // with inotify: only a safety net
constexpr int k_polling_interval_ms = 100;  // without
// Closing an inotify descriptor waits for the kernel (15 ms seen), longer than many runs are worth watching. A run's
// first moments are therefore looked at again and again; one that goes on gets its notifications.
constexpr auto k_first_moments = std::chrono::milliseconds(300);
constexpr int k_first_interval_ms = 1;

// Watches one run's folder. Set up before the first read, so that no change falls between.
class Watch {
 public:
  explicit Watch(const fs::path& folder) : m_inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (m_inotify.valid() && ::inotify_add_watch(m_inotify.get(), folder.c_str(), IN_MODIFY | IN_MOVED_TO) < 0)
      m_inotify.reset();
  }

  [[nodiscard]] int descriptor() const { return m_inotify.get(); }

  // Empties the queue; whether state.json was replaced.
  [[nodiscard]] bool state_changed() {
    alignas(inotify_event) std::array<char, 8192> buffer{};
    bool changed = false;
    for (ssize_t count = 0; (count = ::read(m_inotify.get(), buffer.data(), buffer.size())) > 0;)
      for (ssize_t at = 0; at < count;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        const bool overflow = (event->mask & IN_Q_OVERFLOW) != 0;
        changed = changed || overflow || (event->len > 0 && std::strcmp(event->name, k_state_file) == 0);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    return changed;
  }

 private:
  base::Fd m_inotify;
};

// A pidfd of the process that owns the run: it becomes readable at its death, also by SIGKILL. None for a process of
// another machine.
class OwnerWatch {
 public:
  void look_at(const base::ProcessIdentity& owner) {
    if (owner == m_owner) return;
    m_owner = owner;
    m_pidfd = owner.pid > 0 && owner.pid != ::getpid() && base::is_of_here(owner)
                  ? base::Fd(static_cast<int>(::syscall(SYS_pidfd_open, owner.pid, 0)))
                  : base::Fd();
  }
  [[nodiscard]] int descriptor() const { return m_pidfd.get(); }
  // A death that was acted on must not wake again.
  void forget() { m_pidfd.reset(); }

 private:
  base::ProcessIdentity m_owner;
  base::Fd m_pidfd;
};

// What shows that a file was written to: state.json is replaced, the log's index grows.
struct Mark {
  ino_t inode = 0;
  off_t size = 0;
  bool operator==(const Mark&) const = default;
};

Mark mark_of(const fs::path& file) {
  struct stat status{};
  return ::stat(file.c_str(), &status) == 0 ? Mark{.inode = status.st_ino, .size = status.st_size} : Mark{};
}

class Follower {
 public:
  Follower(RunStore& store, const std::string& id, const FollowOptions& options)
      : m_store(store), m_id(id), m_options(options), m_reader(store.directory(id)) {}

  Result<Status> run() {
    if (m_options.last_lines) TRY(m_reader.seek_to_last_lines(*m_options.last_lines));
    for (;;) {
      if (m_look_at_state) TRY(read_state());
      // The state is read before the log: a final one promises that the log is complete.
      if (m_look_at_log || is_final(m_status.state)) TRY(hand_out_log());
      if (is_final(m_status.state)) {
        report();
        return m_status;
      }
      report();
      if (wait() == FollowOptions::AfterWake::leave) return m_status;
    }
  }

 private:
  Result<void> read_state() {
    m_look_at_state = false;
    m_status = TRY(m_store.status(m_id));
    m_owner.look_at(m_status.supervisor);
    return {};
  }

  Result<void> hand_out_log() {
    for (;;) {
      const auto chunks = TRY(is_final(m_status.state) ? m_reader.next_of_ended() : m_reader.next());
      if (chunks.empty()) return {};
      if (m_options.on_chunk)
        for (const auto& chunk : chunks) m_options.on_chunk(chunk);
    }
  }

  void report() {
    if (m_reported == m_status.state) return;
    m_reported = m_status.state;
    if (m_options.on_status) m_options.on_status(m_status);
  }

  // Returns true once: what changed before the watch was set up has to be looked for.
  bool begin_watching() {
    if (m_watch || std::chrono::steady_clock::now() - m_began < k_first_moments) return false;
    m_watch.emplace(m_store.directory(m_id));
    return true;
  }

  [[nodiscard]] int interval() const {
    if (!m_watch) return k_first_interval_ms;
    const bool notified = m_watch->descriptor() >= 0 && m_owner.descriptor() >= 0;
    return notified ? k_patience_ms : k_polling_interval_ms;
  }

  // In the first moments, when a container is just being started beside this, looking costs one call, not twenty.
  bool has_changed(const char* file, Mark& last) const {
    const Mark now = mark_of(m_store.directory(m_id) / file);
    const bool changed = now != last;
    last = now;
    return changed;
  }

  FollowOptions::AfterWake wait() {
    if (begin_watching()) {
      m_look_at_state = true;
      return FollowOptions::AfterWake::go_on;
    }
    std::array<pollfd, 3> fds{{{m_watch ? m_watch->descriptor() : -1, POLLIN, 0},
                               {m_owner.descriptor(), POLLIN, 0},
                               {m_options.wake_descriptor, POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(), interval());
    m_look_at_state = ready == 0 && (m_watch || has_changed(k_state_file, m_state_mark));
    m_look_at_log = m_watch || has_changed(k_log_index_file, m_log_mark);
    if (fds[0].revents != 0) m_look_at_state = m_watch->state_changed();
    if (fds[1].revents != 0) {
      m_look_at_state = true;
      m_owner.forget();
    }
    if (fds[2].revents != 0 && m_options.on_wake) return m_options.on_wake();
    return FollowOptions::AfterWake::go_on;
  }

  RunStore& m_store;
  const std::string& m_id;
  const FollowOptions& m_options;
  const std::chrono::steady_clock::time_point m_began = std::chrono::steady_clock::now();
  std::optional<Watch> m_watch;
  OwnerWatch m_owner;
  LogReader m_reader;
  Status m_status;
  std::optional<State> m_reported;
  bool m_look_at_state = true, m_look_at_log = true;
  Mark m_state_mark, m_log_mark;
};

}  // namespace

Result<Status> follow(RunStore& store, const std::string& id, const FollowOptions& options) {
  return Follower(store, id, options).run();
}

}  // namespace startrail::run
