// `trail stop`: a run's end, asked for and waited for.
#pragma once

#include <optional>
#include <string>

#include "app/installation.hpp"
#include "run/run.hpp"

namespace startrail::app {

struct StopRequest {
  run::StopHow how = run::StopHow::gracefully;
  std::optional<int> grace_seconds;  // kill after this long; else as the run itself says
};
// Asks for the end and waits for it. A run that already ended is fine. Errors: not_found, permission.
[[nodiscard]] Result<run::Status> stop_run(const Installation& installation, const std::string& id,
                                           const StopRequest& request);

}  // namespace startrail::app
