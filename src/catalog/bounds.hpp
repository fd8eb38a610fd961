// Constraint lines for the resolver: what this machine, and the catalog's knowledge, leave of each framework.
#pragma once

#include <string_view>
#include <vector>

#include "catalog/catalog.hpp"
#include "catalog/hardware.hpp"

namespace startrail::catalog {

// "torch<2.11" with the reason; "torch>=2.8" for GPUs that are too new for older ones; "torch!=2.7.*" for a hole
// between two that work; "torch<2.16" where the catalog ends. See docs/decisions/0002-bounds-not-pins.md.
// When no release runs on this hardware, only the catalog's end is given.
[[nodiscard]] std::vector<Bound> bounds_for(std::string_view framework, const Hardware& hardware);

}  // namespace startrail::catalog
