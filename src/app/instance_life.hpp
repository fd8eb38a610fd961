// The runs that an instance lives as, one after the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/installation.hpp"
#include "instance/record.hpp"
#include "run/run.hpp"

namespace startrail::app {

struct Life {
  std::string run_id;
  run::Status status;
};
// The run that it lives as just now, also one whose id could not be written down any more; that is looked for among
// `live`, the live runs.
[[nodiscard]] std::optional<Life> present_life(run::RunStore& store, const instance::Record& record,
                                               const std::vector<run::RunStore::Listed>& live);
// The same for one instance.
[[nodiscard]] std::optional<Life> present_life(run::RunStore& store, const instance::Record& record);

// Until nothing of that run has its files open any more: not its supervisor, and not its container, which dies a moment
// after a supervisor that was killed. Two overlays on one scratch folder would damage it. Errors: conflict (it won't
// die).
[[nodiscard]] Result<void> wait_until_gone(run::RunStore& store, const std::string& run_id);
// The same for the latest runs that it lived as, whether their ids were written down or not.
[[nodiscard]] Result<void> wait_until_lives_are_gone(run::RunStore& store, const instance::Record& record);

// How its command line is told in lists of runs.
[[nodiscard]] std::vector<std::string> life_command(const std::string& name);

}  // namespace startrail::app
