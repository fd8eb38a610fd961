// Resolving with builds allowed, inside the sandbox, with the few things that old sources need and don't say.
#pragma once

#include <string>
#include <vector>

#include "lock/probe.hpp"
#include "lock/uv_session.hpp"

namespace startrail::lock {

struct BuiltAnswer {
  Answer answer;
  BuildHelp help;                  // that it took
  std::vector<std::string> notes;  // what was added to make it build, one sentence each
};

// `candidate` is what the same Python could do without builds; `help` is what is known to be needed.
[[nodiscard]] Result<BuiltAnswer> resolve_with_builds(UvSession& session, const Probe& candidate,
                                                      const std::vector<std::string>& bounds, BuildHelp help,
                                                      Reporter& reporter);

}  // namespace startrail::lock
