// `trail rerun`: a run again, from its record alone.
#pragma once

#include <string>

#include "app/run_project.hpp"

namespace startrail::app {

enum class Where {
  fresh_folder,   // the recorded snapshot, restored under the state directory
  present_folder  // --here: the caller's folder as it is now
};

// The recorded lock's image, the same command, environment and limits. What can't be the same (files that the
// snapshot left out, another GPU or driver) is told through `reporter` and written into the new record.
// Errors: not_found (no snapshot, a mount's source is gone), refused (the lock can't work here) and those of
// image::ensure.
[[nodiscard]] Result<PreparedRun> prepare_rerun(const Installation& installation, const std::string& id, Where where,
                                                Phases& phases, Reporter& reporter);

}  // namespace startrail::app
