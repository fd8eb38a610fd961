// Do the rows hold together? What can be said without asking anybody.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "catalog/catalog.hpp"

namespace startrail::catalog {

struct Finding {
  std::string row;   // "torch 2.6+cu118"
  std::string file;  // where the row is written
  std::string what;  // "has the driver floor 450.80.02, but CUDA 12.4 needs 525.60.13"
};

// Missing facts, facts without a source, ranges that aren't sorted, floors and architectures that the row's CUDA can't
// have. Empty when all is well.
[[nodiscard]] std::vector<Finding> findings(std::span<const Combination> rows);

// The oldest Linux driver that runs this CUDA, by NVIDIA's tables: minor version compatibility from 11.1 on, the
// toolkit's own driver before. "" for a CUDA that isn't known here.
[[nodiscard]] std::string driver_for_cuda(std::string_view cuda);

}  // namespace startrail::catalog
