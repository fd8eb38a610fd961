#include "lock/request_lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/transfers.hpp"
#include "lock/torch_source.hpp"
#include "lock/uv_failure.hpp"

namespace startrail::lock {
namespace {

using project::Requirement;
using project::SourceKind;

constexpr const char* k_catalog = "the catalog";

// "torch==2.10.0" from --framework: takes the place of what the project says of that package, or joins it.
void apply_framework(std::vector<Requirement>& packages, const std::string& framework, const std::string& origin) {
  const auto split = framework.find_first_of("=<>!~[ ");
  Requirement wanted;
  wanted.name = project::normalized_name(framework.substr(0, split));
  wanted.specifier = split == std::string::npos ? "" : framework.substr(split);
  wanted.origin = {.file = origin, .line = 0};
  wanted.as_written = framework;
  bool found = false;
  for (auto& package : packages) {
    if (package.name != wanted.name || package.kind != SourceKind::index) continue;
    package.specifier = wanted.specifier;
    package.origin = wanted.origin;
    package.as_written = wanted.as_written;
    found = true;
  }
  if (!found) packages.push_back(std::move(wanted));
}

std::string extras_of(const Requirement& requirement) {
  return requirement.extras.empty() ? "" : fmt::format("[{}]", fmt::join(requirement.extras, ","));
}

bool is_url(std::string_view location) {
  return location.find("://") != std::string_view::npos;
}

// Paths are written as URLs: a path with a space or a '#' is no requirement line. Never as editables: uv runs build
// code of those even with --no-build.
std::string local_line(const Requirement& requirement, const fs::path& folder) {
  const std::string url = base::file_address((folder / requirement.location).lexically_normal());
  std::string line = requirement.name.empty() ? url + extras_of(requirement)
                                              : fmt::format("{}{} @ {}", requirement.name, extras_of(requirement), url);
  return requirement.marker.empty() ? line : line + " ; " + requirement.marker;
}

bool is_local(const Requirement& requirement) {
  return requirement.kind == SourceKind::directory ||
         (requirement.kind == SourceKind::archive && !is_url(requirement.location));
}

bool is_nameless_folder(const Requirement& requirement) {
  return requirement.kind == SourceKind::directory && requirement.name.empty();
}

std::string line_of(const Requirement& requirement, const fs::path& folder, const Loosened& loosened) {
  if (is_local(requirement)) return local_line(requirement, folder);
  const auto found = loosened.find(requirement.name);
  if (requirement.kind != SourceKind::index || found == loosened.end()) return to_pep508(requirement);
  Requirement wider = requirement;
  wider.specifier = widened(requirement.specifier, found->second);
  return to_pep508(wider);
}

std::string told(const Requirement& requirement) {
  return requirement.as_written.empty() ? requirement.name + requirement.specifier : requirement.as_written;
}

}  // namespace

std::string widened(std::string_view specifier, Width width) {
  const auto operation = specifier.find_first_of("=~>");
  const auto digit = specifier.find_first_of("0123456789", operation == std::string_view::npos ? 0 : operation);
  if (width == Width::any || operation == std::string_view::npos || digit == std::string_view::npos) return "";
  // A local version ("+cu113") names one build and ".*" a series; neither is part of a bound (PEP 440).
  const auto version = specifier.substr(digit, specifier.find_first_of(", +*!<>", digit) - digit);
  const auto plain = version.ends_with('.') ? version.substr(0, version.size() - 1) : version;
  return fmt::format(">={},<{}", plain, std::strtoul(std::string(plain).c_str(), nullptr, 10) + 1);
}

Request::Request(const project::Requirements& needs, const catalog::Choice& choice,
                 const std::optional<std::string>& framework, const std::string& framework_origin)
    : m_packages(needs.packages), m_constraints(needs.constraints), m_bounds(choice.bounds) {
  std::erase_if(m_packages, [&](const Requirement& package) {
    return std::ranges::find(choice.left_out, package.name) != choice.left_out.end();
  });
  if (framework) apply_framework(m_packages, *framework, framework_origin);
  for (const auto& line : choice.extra_requirements) {
    Requirement extra;
    const auto split = line.find_first_of("[=<>!~ ");
    extra.name = project::normalized_name(line.substr(0, split));
    if (const auto open = line.find('['), close = line.find(']'); open != std::string::npos && close > open)
      extra.extras = {line.substr(open + 1, close - open - 1)};
    if (const auto comparison = line.find_first_of("=<>!~"); comparison != std::string::npos)
      extra.specifier = line.substr(comparison);
    extra.origin = {.file = k_catalog, .line = 0};
    extra.as_written = line;
    m_packages.push_back(std::move(extra));
  }
  for (auto& package : m_packages)
    if (is_nameless_folder(package) && imports_torch(needs.folder / package.location))
      package.name = package_name(needs.folder / package.location);
}

std::vector<std::string> Request::requirement_lines(const fs::path& folder, const Loosened& loosened,
                                                    NamelessFolders nameless) const {
  std::vector<std::string> lines;
  for (const auto& package : m_packages)
    if (nameless == NamelessFolders::included || !is_nameless_folder(package))
      lines.push_back(line_of(package, folder, loosened));
  std::ranges::sort(lines);
  lines.erase(std::ranges::unique(lines).begin(), lines.end());
  return lines;
}

std::vector<std::string> Request::constraint_lines(const Loosened& loosened) const {
  std::vector<std::string> lines;
  for (const auto& constraint : m_constraints)
    if (!constraint.name.empty() && constraint.kind == SourceKind::index)
      lines.push_back(line_of(constraint, {}, loosened));
  for (const auto& bound : m_bounds) lines.push_back(bound.requirement);
  std::ranges::sort(lines);
  lines.erase(std::ranges::unique(lines).begin(), lines.end());
  return lines;
}

const Requirement* Request::find(std::string_view name) const {
  for (const auto* list : {&m_packages, &m_constraints})
    for (const auto& requirement : *list)
      if (requirement.name == name) return &requirement;
  return nullptr;
}

std::vector<std::string> Request::origins(std::string_view name) const {
  std::vector<std::string> lines;
  for (const auto* list : {&m_packages, &m_constraints})
    for (const auto& requirement : *list)
      if (requirement.name == name && requirement.origin.file != k_catalog)
        lines.push_back(fmt::format("{} is read from {}", told(requirement), to_text(requirement.origin)));
  return lines;
}

std::string Request::reason_of_bound(std::string_view requirement) const {
  const auto found = std::ranges::find(m_bounds, requirement, &catalog::Bound::requirement);
  return found == m_bounds.end() ? "" : fmt::format("{}: {}", found->requirement, found->reason);
}

project::Editable Request::editable(const std::string& directory) const {
  const auto plain = [](const std::string& path) { return (fs::path("/") / path / "").lexically_normal(); };
  const bool found = std::ranges::any_of(m_packages, [&](const Requirement& package) {
    return package.kind == SourceKind::directory && package.editable == project::Editable::yes &&
           plain(package.location) == plain(directory);
  });
  return found ? project::Editable::yes : project::Editable::no;
}

std::set<std::string> Request::from_elsewhere() const {
  std::set<std::string> names;
  for (const auto& package : m_packages)
    if (package.kind != SourceKind::index) names.insert(package.name);
  return names;
}

bool Request::has_nameless_folders() const {
  return std::ranges::any_of(m_packages, is_nameless_folder);
}

bool Request::has_local_files() const {
  return std::ranges::any_of(m_packages, [](const Requirement& package) {
    return package.kind == SourceKind::directory || (package.kind == SourceKind::archive && !is_url(package.location));
  });
}

}  // namespace startrail::lock
