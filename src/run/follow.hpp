// Watching a run from another process: its log as it grows, and its end.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "run/log.hpp"
#include "run/record.hpp"
#include "run/store.hpp"

namespace startrail::run {

struct FollowOptions {
  std::function<void(const LogChunk&)> on_chunk;  // every byte of the log, in order
  std::function<void(const Status&)> on_status;   // at each change of state, also the final one (after the last chunk)
  std::optional<std::size_t> last_lines;          // begin with the last so many lines; nullopt: with the first byte
  int wake_descriptor = -1;                       // readable (a signalfd, a self-pipe): `on_wake` is called
  // Returns whether to go on; it must make the descriptor unreadable again.
  enum class AfterWake { go_on, leave };
  std::function<AfterWake()> on_wake;
};
// Returns the final status once the whole log has been handed out; when `on_wake` says `leave`, the status at that
// moment. By inotify on the run's folder and a pidfd of its supervisor, so that nothing waits for a timer; over
// network filesystems every 100 ms. A supervisor that dies makes the run `lost`, as RunStore::status does.
[[nodiscard]] Result<Status> follow(RunStore& store, const std::string& id, const FollowOptions& options);

}  // namespace startrail::run
