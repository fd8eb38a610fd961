// A run's record as a person reads it.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/json.hpp"

namespace startrail::cli {

// `record` is what `inspect --json` prints. One fact a line, a label before each; facts that aren't there are left out.
[[nodiscard]] std::string story_of(const Json& record, base::Time now);

}  // namespace startrail::cli
