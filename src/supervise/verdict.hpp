// From how a command ended to the run's final state.
#pragma once

#include <optional>
#include <string_view>

#include "run/run.hpp"
#include "supervise/watch.hpp"

namespace startrail::supervise {

// Fills in state, exit code, signal, cause, memory and remarks. Asked to stop: `stopped`, or `killed` when at once;
// over its memory limit: `killed`; otherwise `succeeded` on exit code 0, else `failed`.
void judge(run::Status& status, const WatchResult& result, const run::RunSpec& spec,
           const std::optional<run::StopRequest>& request, std::string_view log_tail);

}  // namespace startrail::supervise
