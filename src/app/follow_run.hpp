// Watching a run until it ends: its log as it comes, its end as it happens, and the caller's Ctrl-C on the way.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "app/installation.hpp"
#include "run/run.hpp"

namespace startrail::app {

struct FollowOptions {
  std::optional<std::size_t> tail;  // begin with the last lines only
  // Gets the log in order; false when it can take no more (a closed pipe): following ends then.
  std::function<bool(const run::LogChunk&)> on_chunk;
  std::function<void(std::string_view)> on_message;  // "stopping …", for stderr
};

struct Followed {
  run::Status status;
  bool reader_gone = false;  // on_chunk said false; the run may still be going on
};

// Returns when the run has ended. After `catch_interrupts`, the first Ctrl-C stops the run gracefully and the second
// kills it. Errors: not_found, corrupt.
[[nodiscard]] Result<Followed> follow_run(const Installation& installation, run::RunStore& store, const std::string& id,
                                          const FollowOptions& options);

// From here on SIGINT and SIGTERM are kept for `follow_run`. Called before a run is submitted, so that none falls
// between.
void catch_interrupts();

// What a shell sees of a run: its command's exit code, 128 + signal, 125 when it never started, 137 when it was lost.
[[nodiscard]] int exit_status(const run::Status& status);

}  // namespace startrail::app
