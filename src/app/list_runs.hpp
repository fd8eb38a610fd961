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

// A run by its id, a prefix of it, or "latest"; or by an instance's name: the run that it lives as, or lived as last.
// Errors: not_found, invalid_input.
[[nodiscard]] Result<std::string> find_run(const Installation& installation, run::RunStore& store,
                                           const std::string& name);

// {"runs": […]}, newest first.
[[nodiscard]] Json to_json(const std::vector<run::RunStore::Listed>& runs);

}  // namespace startrail::app
