// trail-init, the static PID 1 that goes into every container, and what it is told first.
#pragma once

#include <filesystem>

#include "base/error.hpp"
#include "init/protocol.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

// STARTRAIL_INIT, beside this program, or ../libexec/startrail/ of it. Errors: not_found.
[[nodiscard]] Result<fs::path> init_program();

// Without a container there are no restrictions, and no limit on processes: RLIMIT_NPROC would count all of the
// caller's. Errors: internal (a filter that init has no room for).
[[nodiscard]] Result<init::StartRequest> start_request(const Support& support, const ContainerSpec& spec,
                                                       const Identity& identity);
// Without the unused rest of the filter.
[[nodiscard]] std::size_t size_of(const init::StartRequest& request);

}  // namespace startrail::sandbox
