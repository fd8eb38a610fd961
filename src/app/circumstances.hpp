// What is written down about how a run came about: seeds, the image in words.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/process.hpp"
#include "lock/lock.hpp"

namespace startrail::app {

// Names that look like seeds, in variables (SEED, PYTHONHASHSEED, DATA_SEED) and flags (--seed 1, --random-seed=1,
// seed=1): {"PYTHONHASHSEED": "0", "--seed": "1"}. Empty object when there are none.
[[nodiscard]] Json find_seeds(const std::vector<std::string>& command, const base::Environment& environment);

// {"python", "suite", "framework", "framework_version", "cuda", "cudnn", "nccl", "build", "packages"}.
[[nodiscard]] Json image_in_words(const lock::Lock& lock);

}  // namespace startrail::app
