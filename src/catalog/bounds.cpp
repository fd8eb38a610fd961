#include "catalog/bounds.hpp"

#include <fmt/format.h>

#include "catalog/rows.hpp"
#include "machine/versions.hpp"

namespace startrail::catalog {
namespace {

std::string after(const std::string& series) {
  auto numbers = machine::version_numbers(series);
  ++numbers.back();
  return fmt::format("{}", fmt::join(numbers, "."));
}

Bound end_of_catalog(const Combination& newest) {
  return {.requirement = fmt::format("{}<{}", newest.framework, after(newest.series)),
          .reason = fmt::format("the catalog knows {} up to {}", newest.framework, newest.series)};
}

enum class Direction { newer, older, alone };

std::string reason(const Combination& row, const Hardware& hardware, Direction direction) {
  const Clash clash = *clash_of(row, hardware);
  const char* others = direction == Direction::newer ? " and newer" : direction == Direction::older ? " and older" : "";
  if (clash.kind == ClashKind::driver)
    return fmt::format("driver {} is too old for the CUDA {} of {} {}{}: that takes {}", hardware.driver->version,
                       row.cuda, row.framework, row.series, others, shown_floor(row, *hardware.driver));
  return fmt::format("{} {}{} {} no kernels for {} ({})", row.framework, row.series, others,
                     direction == Direction::alone ? "has" : "have", clash.gpu->name, clash.gpu->architecture());
}

}  // namespace

std::vector<Bound> bounds_for(std::string_view framework, const Hardware& hardware) {
  const Rows rows = rows_of(framework, "");  // newest first
  if (rows.empty()) return {};
  const auto works = [&](const Combination* row) { return !clash_of(*row, hardware); };
  std::size_t first = 0;
  while (first < rows.size() && !works(rows[first])) ++first;
  if (first == rows.size()) return {end_of_catalog(*rows.front())};
  std::size_t last = rows.size() - 1;
  // Old releases that run on the CPU anyway are no reason to let those between them and the newest in.
  while (last > first && (!works(rows[last]) || runs_on_the_cpu_anyway(*rows[last]))) --last;

  std::vector<Bound> bounds;
  if (first == 0)
    bounds.push_back(end_of_catalog(*rows.front()));
  else
    bounds.push_back({.requirement = fmt::format("{}<{}", framework, rows[first - 1]->series),
                      .reason = reason(*rows[first - 1], hardware, Direction::newer)});
  if (last + 1 < rows.size() && !works(rows[last + 1]))
    bounds.push_back({.requirement = fmt::format("{}>={}", framework, rows[last]->series),
                      .reason = reason(*rows[last + 1], hardware, Direction::older)});
  for (std::size_t middle = first; middle < last; ++middle)
    if (!works(rows[middle]))
      bounds.push_back({.requirement = fmt::format("{}!={}.*", framework, rows[middle]->series),
                        .reason = reason(*rows[middle], hardware, Direction::alone)});
  return bounds;
}

}  // namespace startrail::catalog
