// Upper bounds that releases should have declared and couldn't: what they break with came later.
#pragma once

#include <string>
#include <vector>

#include "lock/lock.hpp"

namespace startrail::lock {

struct LateBound {
  std::string requirement;  // "numpy<2"
  std::string reason;       // "torch 1.11.0 is built for numpy 1"
  std::string package;      // "torch", which breaks without the bound
  std::string broken;       // "numpy"
  enum class Harm { some_imports, binary_interface } harm = Harm::some_imports;
};

// The bounds that `lock`, resolved without them, breaks; empty for most.
[[nodiscard]] std::vector<LateBound> late_bounds(const Lock& lock);

}  // namespace startrail::lock
