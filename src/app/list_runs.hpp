// `trail ps`: the runs of this state directory.
#pragma once

#include <vector>

#include "app/installation.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "run/run.hpp"

namespace startrail::app {

// Opens the record; tells of a repaired database through `reporter`.
[[nodiscard]] Result<run::RunStore> open_runs(const Installation& installation, Reporter& reporter);

// {"runs": […]}, newest first.
[[nodiscard]] Json to_json(const std::vector<run::RunStore::Listed>& runs);

}  // namespace startrail::app
