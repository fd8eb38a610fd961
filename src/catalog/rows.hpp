// The catalog's rows as the files hold them, and how they are found.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.hpp"

namespace startrail::catalog {

// Rows from one file of catalog/*.toml. A [[build]] entry becomes one row for each series it names: that series'
// own row (of this file, else of `beside`) with the build's CUDA, driver floor, architectures and index.
// Errors: corrupt, naming the file, the line and what is wrong with the row.
[[nodiscard]] Result<std::vector<Combination>> parse_rows(std::string_view toml, std::string_view name,
                                                          std::span<const Combination> beside = {});

// All rows, those of `own` in place of the ones of `compiled_in` with the same framework, series and tag; in the
// order that `combinations` has.
[[nodiscard]] std::vector<Combination> with_own_rows(std::vector<Combination> compiled_in,
                                                     std::vector<Combination> own);

using Rows = std::vector<const Combination*>;

// Rows of a framework with this tag ("": the default index), newest first.
[[nodiscard]] Rows rows_of(std::string_view framework, std::string_view tag);

// "2.10" is newer than "2.9".
[[nodiscard]] bool is_newer(std::string_view left, std::string_view right);

// "torch 2.13", or "torch 2.13+cu126".
[[nodiscard]] std::string title(const Combination& row);

// A Python on offer has wheels of this row, and its suite's glibc is new enough for them.
[[nodiscard]] bool has_python(const Combination& row, std::string_view minor);

}  // namespace startrail::catalog
