// What `run`, `rerun` and `logs -f` show while a run goes on, and what they say when it ends.
#pragma once

#include <string>

#include "app/follow_run.hpp"
#include "app/installation.hpp"
#include "app/phases.hpp"
#include "app/run_project.hpp"
#include "base/json.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {

struct FollowStyle {
  Format format = Format::text;
  Verbosity verbosity = Verbosity::normal;
  bool detach = false;
  bool timings = false;
};

// Shows a submitted run to its end (or only its id, when detached); returns the exit code.
[[nodiscard]] int show_submitted(const app::Installation& installation, const app::SubmittedRun& submitted,
                                 app::Phases& phases, const FollowStyle& style);

// The command's stdout goes to stdout and its stderr to stderr, byte for byte; with Format::json both go to stderr.
// False when the reader is gone.
[[nodiscard]] bool print_chunk(const run::LogChunk& chunk, Format format);

// "run quiet-falcon-3f2a failed: CUDA out of memory: …", with its hints; for stderr.
[[nodiscard]] std::string ending_in_words(const std::string& id, const run::Status& status);
// {"id", "state", "exit_code", "signal", "cause", "image", "lock_digest", "outputs", "started", "ended", "seconds"}.
[[nodiscard]] Json ending_json(const app::Installation& installation, const run::RunSpec& spec,
                               const run::Status& status);

}  // namespace startrail::cli
