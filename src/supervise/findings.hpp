// What a failed run's log shows, found by the rules of `trail doctor` while the run ends.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/json.hpp"
#include "machine/machine.hpp"

namespace startrail::supervise {

// Findings in the log of a run (diagnose::to_json), the best few first; `cause` is looked at when the log shows
// nothing. An array, empty when nothing known is in either. Of a log over 16 MiB only the end is read, and its evidence
// has no line numbers then.
[[nodiscard]] Json findings_in_log(const std::filesystem::path& run_directory, std::string_view cause,
                                   const machine::Machine& machine);

}  // namespace startrail::supervise
