#include "lock/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "lock/suite.hpp"
#include "lock/tags.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

constexpr int k_most_obstacles = 24;

// "lap-0.4.0.tar.gz" → "0.4.0"; "" for files that are no sources (PyPA "Source distribution file name").
std::string source_version(const std::string& filename) {
  for (const std::string_view suffix : {".tar.gz", ".zip", ".tar.bz2"}) {
    const auto dash = filename.rfind('-');
    if (filename.ends_with(suffix) && dash != std::string::npos)
      return filename.substr(dash + 1, filename.size() - suffix.size() - dash - 1);
  }
  return "";
}

// uv names packages that would need building beside contradictions too. Where this one has a wheel that the project's
// own specifier admits, building isn't what's missing.
bool has_admitted_wheel(const UvSession& session, const std::string& name, const catalog::PythonChoice& python) {
  const auto* requirement = session.request().find(name);
  if (requirement == nullptr) return false;
  const auto specifier = project::SpecifierSet::parse(requirement->specifier);
  const auto files = index_page(session.indexes().default_index, name);
  if (!specifier || !files) return false;
  const Tags tags = Tags::for_python(python.minor, glibc_minor_of(python.suite));
  return std::ranges::any_of(*files, [&](const IndexFile& file) {
    const auto wheel = parse_wheel_name(file.artifact.filename);
    if (!wheel || file.yanked == Yanked::yes || !tags.rank(*wheel)) return false;
    const auto version = project::Version::parse(wheel->version);
    return version && specifier->contains(*version);
  });
}

// uv says "no usable wheels" of a pin whose source this Python may not have, too. What the wheels are for is said then.
std::optional<UvFailure> unusable_source(const UvSession& session, const std::string& name,
                                         const catalog::PythonChoice& python) {
  const auto* requirement = session.request().find(name);
  if (requirement == nullptr || !requirement->specifier.starts_with("==")) return std::nullopt;
  const auto specifier = project::SpecifierSet::parse(requirement->specifier);
  const auto files = index_page(session.indexes().default_index, name);
  if (!specifier || !files) return std::nullopt;
  UvFailure failure{.kind = FailureKind::no_wheels, .package = name};
  std::set<int> minors;
  bool any = false;
  for (const auto& file : *files) {
    const auto wheel = parse_wheel_name(file.artifact.filename);
    const auto version = project::Version::parse(wheel ? wheel->version : source_version(file.artifact.filename));
    if (!version || !specifier->contains(*version)) continue;
    any = true;
    failure.version = version->text();
    if (wheel) {
      for (const auto& minor : pythons_of(*wheel)) minors.insert(std::atoi(minor.c_str() + 2));
    } else if (const auto admitted = project::SpecifierSet::parse(file.requires_python);
               !admitted || admitted->admits_series(python.minor)) {
      return std::nullopt;
    }
  }
  if (!any) return std::nullopt;
  for (const int minor : minors) failure.tags += fmt::format("{}cp3{}", failure.tags.empty() ? "" : ", ", minor);
  return failure;
}

// The packages to leave out of the next attempt; none when leaving out can't help.
std::vector<std::string> to_leave_out(const UvSession& session, const UvFailure& failure,
                                      const catalog::PythonChoice& python) {
  if (failure.kind == FailureKind::no_wheels) return {failure.package};
  if (failure.kind == FailureKind::needs_build) return failure.unbuilt;
  if (failure.kind != FailureKind::contradiction) return {};
  std::vector<std::string> names;
  for (const auto& name : failure.unbuilt)
    if (!has_admitted_wheel(session, name, python)) names.push_back(name);
  return names;
}

}  // namespace

Result<Probe> probe(UvSession& session, const catalog::PythonChoice& python, const ProbeOptions& options) {
  Probe result{.python = python};
  Question question{.python = python, .loosened = options.loosened, .bounds = options.bounds};
  for (int attempt = 0; attempt < k_most_obstacles; ++attempt) {
    if (options.deadline != std::chrono::steady_clock::time_point::max()) {
      const auto left = options.deadline - std::chrono::steady_clock::now();
      question.patience = std::max(std::chrono::seconds(1), std::chrono::ceil<std::chrono::seconds>(left));
    }
    Answer answer = TRY(session.ask(question));
    if (answer.lock_text) {
      result.solution = std::move(answer);
      return result;
    }
    const auto names = to_leave_out(session, answer.failure, python);
    bool progress = false;
    for (const auto& name : names) {
      if (name.empty() || std::ranges::find(question.without, name) != question.without.end()) continue;
      question.without.push_back(name);
      progress = true;
      if (answer.failure.kind == FailureKind::no_wheels) {
        result.no_wheels.push_back(answer.failure);
      } else if (auto unusable = unusable_source(session, name, python)) {
        result.no_wheels.push_back(std::move(*unusable));
      } else {
        result.to_build.push_back(name);
      }
    }
    if (progress) continue;
    result.obstacle = answer.failure;
    result.errors = answer.errors;
    return result;
  }
  result.obstacle = UvFailure{.kind = FailureKind::other, .reason = "too many packages have no wheel"};
  return result;
}

}  // namespace startrail::lock
