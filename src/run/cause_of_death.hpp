// One line for why a run ended as it did.
#pragma once

#include <string>
#include <string_view>

#include "run/record.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::run {

// From how it ended and the log's tail: "killed: memory limit 512 MiB reached", "signal 11 in python",
// "CUDA out of memory: tried to allocate 2.00 GiB", "ModuleNotFoundError: No module named 'foo'", "exit code 3".
// At most 200 bytes, without control characters; "" when the command succeeded.
[[nodiscard]] std::string cause_of_death(const sandbox::Ended& ended, const RunSpec& spec, std::string_view log_tail);
// "killed: memory limit 512 MiB reached", also when the supervisor's own watch found it.
[[nodiscard]] std::string memory_limit_cause(const RunSpec& spec);
// Cut to 200 bytes at a character's border, control characters replaced by spaces.
[[nodiscard]] std::string one_line(std::string_view text);

}  // namespace startrail::run
