// Combinations by the names that people write: "pytorch:2.6", "torch==2.6.0".
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "catalog/catalog.hpp"
#include "catalog/rows.hpp"
#include "machine/versions.hpp"
#include "project/requirements.hpp"
#include "project/version.hpp"

namespace startrail::catalog {
namespace {

constexpr std::size_t k_most_near_names = 3;

struct Parts {
  std::string framework, version, tag;  // "torch", "2.6.0", "cu126"
};

Parts parts_of(std::string_view text) {
  const auto separator = std::min(text.find_first_of(":="), text.size());
  Parts parts{.framework = project::normalized_name(text.substr(0, separator)), .version = {}, .tag = {}};
  if (parts.framework == "pytorch") parts.framework = "torch";
  const auto first = text.find_first_not_of(":=", separator);
  if (first == std::string_view::npos) return parts;
  const std::string_view version = text.substr(first);
  const auto plus = std::min(version.find('+'), version.size());
  parts.version = version.substr(0, plus);
  parts.tag = version.substr(std::min(plus + 1, version.size()));
  return parts;
}

std::string written(const Combination& row) {
  return fmt::format("{}:{}{}{}", row.framework == "torch" ? "pytorch" : row.framework, row.series,
                     row.tag.empty() ? "" : "+", row.tag);
}

std::vector<std::string> frameworks() {
  std::vector<std::string> names;
  for (const auto& row : combinations())
    if (std::ranges::find(names, row.framework) == names.end()) names.push_back(row.framework);
  return names;
}

// How far apart two series are, majors first.
unsigned long distance(std::string_view left, std::string_view right) {
  auto a = machine::version_numbers(left);
  auto b = machine::version_numbers(right);
  a.resize(2);
  b.resize(2);
  const auto apart = [](unsigned long x, unsigned long y) { return x > y ? x - y : y - x; };
  return apart(a[0], b[0]) * 1000 + apart(a[1], b[1]);
}

Rows nearest_rows(const Parts& parts) {
  Rows rows;
  for (const auto& row : combinations())
    if (row.framework == parts.framework && (row.tag.empty() || !parts.tag.empty())) rows.push_back(&row);
  std::ranges::stable_sort(rows, {}, [&](const Combination* row) {
    return std::pair(distance(row->series, parts.version), row->tag != parts.tag);
  });
  rows.resize(std::min(rows.size(), k_most_near_names));
  std::ranges::sort(rows, [](const auto* a, const auto* b) { return is_newer(a->series, b->series); });
  return rows;
}

Error unknown(std::string_view text, const Parts& parts) {
  Error reason = base::error(ErrorCode::not_found, fmt::format("`{}` is no combination of this catalog", text));
  std::vector<std::string> near;
  for (const auto* row : nearest_rows(parts)) near.push_back(written(*row));
  if (near.empty())
    return std::move(reason)
        .with_context(fmt::format("it has combinations of {}", fmt::join(frameworks(), ", ")))
        .with_hint("`trail catalog list` shows all; name one such as pytorch:2.6");
  return std::move(reason).with_hint(
      fmt::format("the nearest are {}; `trail catalog list` shows all", fmt::join(near, ", ")));
}

std::string requirement_for(const Combination& row, const Parts& parts) {
  if (parts.version.empty()) return fmt::format("{}=={}.*", row.framework, row.series);
  // A build of another index is asked for by one release's local version; no set of releases can say it.
  if (!parts.tag.empty())
    return fmt::format("{}=={}+{}", row.framework, parts.version == row.series ? row.newest : parts.version, parts.tag);
  return fmt::format("{}=={}{}", row.framework, parts.version, parts.version == row.series ? ".*" : "");
}

}  // namespace

bool is_name(std::string_view text) {
  const Parts parts = parts_of(text);
  return std::ranges::any_of(combinations(), [&](const auto& row) { return row.framework == parts.framework; });
}

Result<Named> named(std::string_view text) {
  const Parts parts = parts_of(text);
  if (!parts.version.empty() && !project::Version::parse(parts.version)) return fail(unknown(text, parts));
  const auto numbers = machine::version_numbers(parts.version);
  const std::string series =
      numbers.empty() ? "" : fmt::format("{}.{}", numbers[0], numbers.size() > 1 ? numbers[1] : 0);
  for (const auto& row : combinations()) {
    if (row.framework != parts.framework || row.tag != parts.tag) continue;
    if (series.empty() || row.series == series) return Named{.row = &row, .requirement = requirement_for(row, parts)};
  }
  return fail(unknown(text, parts));
}

}  // namespace startrail::catalog
