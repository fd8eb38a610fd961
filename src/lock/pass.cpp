#include "lock/pass.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/files.hpp"
#include "lock/build_attempts.hpp"
#include "lock/locked_answer.hpp"
#include "lock/refusal.hpp"
#include "lock/source_wheel.hpp"
#include "lock/torch_build.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

using Clock = std::chrono::steady_clock;

// Pythons that no base has, asked only to tell a clash of Pythons from a clash of packages.
constexpr std::array k_elsewhere{"3.8", "3.7", "3.10", "3.12"};
constexpr std::chrono::seconds k_longest_diagnosis{20};
constexpr std::chrono::seconds k_longest_search{40};
constexpr int k_most_metadata_rounds = 2;
// Each further one may need a base of its own and an hour of compiling.
constexpr std::size_t k_most_pythons_to_build_for = 2;

bool ends_everything(const UvFailure& failure) {
  return failure.kind == FailureKind::git || failure.kind == FailureKind::network ||
         failure.kind == FailureKind::unknown_package || failure.kind == FailureKind::too_slow;
}

std::string why_not(const Probe& probe) {
  if (!probe.no_wheels.empty())
    return fmt::format("{} {} has no wheel for it", probe.no_wheels.front().package, probe.no_wheels.front().version);
  if (!probe.to_build.empty()) return fmt::format("{} can't be had as a wheel for it", fmt::join(probe.to_build, ", "));
  return "the requirements don't resolve on it";
}

// The preferred Python first; then old ones, which old sources know.
std::vector<Probe> in_building_order(const std::vector<Probe>& probes) {
  std::vector<Probe> candidates;
  std::ranges::copy_if(probes, std::back_inserter(candidates), &Probe::buildable);
  if (candidates.size() < 2) return candidates;
  std::ranges::stable_sort(candidates.begin() + 1, candidates.end(), [](const Probe& a, const Probe& b) {
    const auto left = project::Version::parse(a.python.minor);
    const auto right = project::Version::parse(b.python.minor);
    return left && right && *left < *right;
  });
  candidates.resize(std::min(candidates.size(), k_most_pythons_to_build_for));
  return candidates;
}

std::vector<std::string> system_packages_of(const project::Requirements& needs) {
  std::vector<std::string> names;
  for (const auto& package : needs.system_packages) names.push_back(package.value);
  return names;
}

std::set<std::string> as_set(const std::vector<std::string>& lines) {
  return {lines.begin(), lines.end()};
}

// Every package of `taken` says itself what was taken for it.
bool is_told(const BuildRequirements& taken, const BuildRequirements& told) {
  return std::ranges::all_of(told, [&](const auto& package) {
    const auto found = taken.find(package.first);
    return found == taken.end() || as_set(found->second) == as_set(package.second);
  });
}

bool has_sources_beside_torch(const Lock& lock) {
  const auto is_source = [](const LockedPackage& package) {
    return !is_wheel(package) && package.editable == project::Editable::no;
  };
  return std::ranges::find(lock.packages, "torch", &LockedPackage::name) != lock.packages.end() &&
         std::ranges::any_of(lock.packages, is_source);
}

// Metadata that needs no build keeps it secret until then. An editable can't be compiled, and says so itself.
bool misses_torch(const Error& failure, const LockedPackage& package) {
  return failure.code == ErrorCode::refused && package.editable == project::Editable::no &&
         parse_build_output(failure.detail, package.name).missing_module == k_torch_module;
}

}  // namespace

Result<Found> Pass::run() {
  for (const auto& python : m_in.choice.pythons) {
    m_probes.push_back(TRY(probe(m_session, python, {.bounds = m_bounds})));
    const Probe& latest = m_probes.back();
    if (latest.complete()) return with_sources(latest);
    if (latest.obstacle && ends_everything(*latest.obstacle)) return refuse(*latest.obstacle, latest);
  }
  if (m_probes.empty()) return fail(ErrorCode::internal, "no Python was chosen to resolve for");
  return run_with_builds();
}

// Metadata that is static doesn't tell what a build imports. Beside torch that may be torch, so it is tried now; what
// can't be tried here is built with the image, as elsewhere.
Result<Found> Pass::with_sources(const Probe& complete) {
  Found solution = TRY(found(*complete.solution, complete.python, {}));
  if (!has_sources_beside_torch(solution.lock)) return solution;
  const auto sources = build_sources(solution, complete);
  if (!sources && sources.error().code == ErrorCode::refused) return fail(sources.error());
  if (!sources || sources->without_torch.empty()) return solution;
  TRY(learn_missing_torch(sources->without_torch));
  Probe candidate = complete;
  candidate.to_build = {sources->without_torch};
  return build(candidate);
}

Result<void> Pass::learn_missing_torch(const std::string& package) {
  if (!learn_torch(m_learnt, package, m_learnt_notes))
    return fail(ErrorCode::internal, package + " was built without the torch that it needs");
  m_in.reporter.note(m_learnt_notes.back());
  return {};
}

Result<Found> Pass::run_with_builds() {
  std::optional<Error> first;
  for (const auto& candidate : in_building_order(m_probes)) {
    auto built = build(candidate);
    if (built) return built;
    // What went wrong on the preferred Python says more than what another then lacks.
    const bool goes_on = built.error().code == ErrorCode::refused;
    if (!first) first = std::move(built).error();
    if (!goes_on) break;
  }
  if (first) return fail(std::move(*first));
  return refuse_all();
}

// What can't be asked of builds that import torch.
BuildHelp Pass::known_help(const Probe& candidate) const {
  BuildHelp help = m_learnt;
  for (const auto& name : candidate.to_build) {
    const auto* known = torch_package(name);
    const auto& told = m_in.needs.settings.build_with_torch;
    if (known != nullptr) help.metadata[name] = known->requirements;
    if (known == nullptr && std::ranges::find(told, name) != told.end()) help.metadata[name] = {"torch"};
  }
  return help;
}

// What was taken for what a package needs may be wrong, and only its wheel tells; then uv is asked again. Each package
// misses torch once at most.
Result<Found> Pass::build(const Probe& candidate) {
  BuildHelp help = known_help(candidate);
  for (int round = 0;;) {
    auto built = TRY(resolve_with_builds(m_session, candidate, m_bounds, std::move(help), m_in.reporter));
    built.notes.insert(built.notes.end(), m_learnt_notes.begin(), m_learnt_notes.end());
    if (!built.answer.lock_text) {
      Probe failed = candidate;
      failed.errors = built.answer.errors;
      return refuse(built.answer.failure, failed);
    }
    Found solution = TRY(found(built.answer, candidate.python, std::move(built.notes)));
    for (const auto& [name, requirements] : built.help.metadata) solution.lock.built_with_torch.push_back(name);
    const Sources sources = TRY(build_sources(solution, candidate));
    help = built.help;
    if (!sources.without_torch.empty()) {
      TRY(learn_missing_torch(sources.without_torch));
      help.metadata.insert(m_learnt.metadata.begin(), m_learnt.metadata.end());
      continue;
    }
    if (round++ == k_most_metadata_rounds || is_told(help.metadata, sources.told)) return solution;
    for (const auto& [name, requirements] : sources.told) help.metadata[name] = requirements;
  }
}

// A lock whose sources don't build is none; the wheels are kept for the image.
Result<Pass::Sources> Pass::build_sources(const Found& found, const Probe& candidate) {
  const std::filesystem::path base =
      TRY(m_in.options.base.ensure(found.python.suite, system_packages_of(m_in.needs), m_in.reporter));
  Lock whole = found.lock;
  TRY(complete(whole, found.python, m_in.needs, m_in.choice, m_in.options, m_in.machine));
  const SourceBuild build{.suite = found.python.suite,
                          .base = base,
                          .lock_directory = m_in.needs.folder,
                          .state_root = m_in.options.state_root,
                          .indexes = m_session.indexes(),
                          .lock = &whole,
                          .provider = &m_in.options.base};
  Sources sources;
  for (const auto& package : found.lock.packages) {
    if (is_wheel(package)) continue;
    auto wheel = build_source_wheel(package, build, m_in.machine, m_in.reporter);
    if (wheel && is_built_with_torch(whole, package.name)) sources.told[package.name] = requirements_of_built(*wheel);
    if (wheel) continue;
    if (misses_torch(wheel.error(), package) && !is_built_with_torch(whole, package.name)) {
      sources.without_torch = package.name;
      return sources;
    }
    Error reason = std::move(wheel).error();
    const auto origins = m_session.request().origins(package.name);
    reason.context.insert(reason.context.begin(), origins.begin(), origins.end());
    if (reason.code == ErrorCode::refused) add_build_hints(reason, package, candidate);
    return fail(std::move(reason));
  }
  return sources;
}

// A source that nobody asked for comes with those that were asked for: an old pin brings others of its time.
void Pass::add_build_hints(Error& reason, const LockedPackage& failed, const Probe& candidate) {
  Loosened own = suspects({.package = failed.name}, m_session.request());
  if (!own.empty()) {
    const auto before = reason.hints.size();
    add_hints(reason, own);
    const UvFailure failure{.package = failed.name, .version = failed.version};
    const WayFinder ways(m_session, m_in.choice.pythons, Clock::now());
    if (reason.hints.size() == before) ways.add_next_release(reason, failure);
    return;
  }
  for (const auto& name : candidate.to_build) own.merge(suspects({.package = name}, m_session.request()));
  WayFinder(m_session, m_in.choice.pythons, Clock::now() + k_longest_search).add_joint_hint(reason, own);
}

Result<Found> Pass::found(const Answer& answer, const catalog::PythonChoice& python,
                          std::vector<std::string> notes) const {
  const Probe& first = m_probes.front();
  if (first.python.minor != python.minor)
    notes.push_back(
        fmt::format("Python {} was taken instead of {}: {}", python.minor, first.python.minor, why_not(first)));
  Lock lock = TRY(lock_from(answer, python, m_in.needs, m_session.request()));
  return Found{.lock = std::move(lock), .python = python, .notes = std::move(notes)};
}

std::unexpected<Error> Pass::refuse(const UvFailure& failure, const Probe& origin) {
  Error reason = refusal(failure, m_session.request(), origin.python.minor);
  reason.detail = origin.errors;
  if (failure.kind == FailureKind::git) add_index_hint(reason, failure);
  if (reason.code == ErrorCode::refused && failure.kind != FailureKind::unknown_package)
    add_hints(reason, suspects(failure, m_session.request()));
  if (const auto way = untried_way_out(failure, m_session.request()); reason.hints.empty() && !way.empty())
    reason.with_hint(way);
  return fail(std::move(reason));
}

std::unexpected<Error> Pass::refuse_all() {
  // A clash between packages is the truer reason than a wheel that one Python lacks.
  for (const auto& probe : m_probes)
    if (probe.obstacle && probe.no_wheels.empty()) return refuse(*probe.obstacle, probe);
  std::optional<std::string> elsewhere;
  const auto deadline = Clock::now() + k_longest_diagnosis;
  for (const char* minor : k_elsewhere) {
    if (elsewhere || Clock::now() > deadline) break;
    const auto asked = probe(m_session, {.minor = minor, .suite = "bullseye", .remark = ""},
                             {.bounds = m_bounds, .deadline = deadline});
    if (!asked) break;
    const bool clash = asked->obstacle && asked->obstacle->kind == FailureKind::contradiction;
    if (clash && asked->no_wheels.empty()) return refuse(*asked->obstacle, *asked);
    if (asked->complete()) elsewhere = minor;
  }
  for (const auto& probe : m_probes)
    if (probe.obstacle && probe.obstacle->kind == FailureKind::contradiction) return refuse(*probe.obstacle, probe);
  Error reason = no_python_refusal(m_probes, m_session.request(), elsewhere);
  Loosened loosened;
  for (const auto& probe : m_probes)
    for (const auto& failure : probe.no_wheels) loosened.merge(suspects(failure, m_session.request()));
  add_hints(reason, loosened);
  if (reason.hints.empty()) add_next_releases(reason);
  return fail(std::move(reason));
}

void Pass::add_next_releases(Error& reason) {
  const WayFinder ways(m_session, m_in.choice.pythons, Clock::now());
  std::set<std::string> told;
  for (const auto& probe : m_probes)
    for (const auto& failure : probe.no_wheels)
      if (told.insert(failure.package).second) ways.add_next_release(reason, failure);
}

// A repository that can't be reached may have releases in the index.
void Pass::add_index_hint(Error& reason, const UvFailure& failure) const {
  for (const auto& [address, name, place] : repositories(failure, m_session.request()))
    if (!name.empty() && m_session.files_of(name) != nullptr)
      reason.with_hint(fmt::format(
          "or write {} in place of {}, if the project of that name in the package index is the same", name, address));
}

void Pass::add_hints(Error& reason, const Loosened& suspects) {
  WayFinder(m_session, m_in.choice.pythons, Clock::now() + k_longest_search).add_hints(reason, suspects);
}

}  // namespace startrail::lock
