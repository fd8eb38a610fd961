// `trail doctor --log`: the cause behind an error.
#pragma once

#include <string>
#include <vector>

#include "app/installation.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "diagnose/diagnose.hpp"

namespace startrail::app {

// "-" is standard input. Errors: not_found, permission, naming the file.
[[nodiscard]] Result<std::vector<diagnose::Finding>> diagnose_log(const std::string& file);
// What a run printed, both streams. `name` as for `trail logs`. Errors: those of finding the run.
[[nodiscard]] Result<std::vector<diagnose::Finding>> diagnose_run(const Installation& installation,
                                                                  const std::string& name, Reporter& reporter);

// {"findings": […]}, the best first.
[[nodiscard]] Json to_json(const std::vector<diagnose::Finding>& findings);

}  // namespace startrail::app
