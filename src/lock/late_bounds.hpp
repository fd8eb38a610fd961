// Upper bounds that releases should have declared and couldn't: what they break with came later.
#pragma once

#include <string>
#include <vector>

#include "lock/lock.hpp"

namespace startrail::lock {

struct LateBound {
  std::string requirement;  // "numpy<2"
  std::string reason;       // "torch 1.11.0 is built for numpy 1"
};

// The bounds that `lock`, resolved without them, breaks; empty for most.
[[nodiscard]] std::vector<LateBound> late_bounds(const Lock& lock);

}  // namespace startrail::lock
