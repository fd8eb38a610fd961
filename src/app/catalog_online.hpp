// `trail catalog check --online`: the catalog's facts against what the package index says of the same wheels.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/installation.hpp"
#include "base/reporter.hpp"
#include "catalog/catalog.hpp"

namespace startrail::app {

struct Difference {
  std::string row;   // "torch 2.6"
  std::string fact;  // "cudnn"
  std::string catalog, index;
};

struct Comparison {
  std::vector<Difference> differences;
  int rows = 0, facts = 0;           // compared
  std::vector<std::string> skipped;  // one sentence each: a row or an index that couldn't be asked
};

// Reads project pages, and asks uv what the wheels' metadata leads to; downloads no wheel. Rows of another index are
// compared where it answers. Errors: those of having uv.
[[nodiscard]] Result<Comparison> compare_with_index(const Installation& installation,
                                                    std::span<const catalog::Combination> rows, Reporter& reporter);

// "9.3" and "9.3.0.75" say the same, as far as both go; "12" and "12.4" do; "9.1" and "9.3" don't.
[[nodiscard]] bool agree(std::string_view left, std::string_view right);

}  // namespace startrail::app
