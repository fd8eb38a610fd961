#include "lock/ways_out.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lock/late_bounds.hpp"
#include "lock/lock_text.hpp"
#include "lock/refusal.hpp"
#include "lock/suite.hpp"
#include "lock/tags.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

constexpr std::size_t k_most_hints = 3;
constexpr int k_most_rounds = 4;

Loosened all_at(const Loosened& names, Width width) {
  Loosened result;
  for (const auto& [name, ignored] : names) result.emplace(name, width);
  return result;
}

}  // namespace

// Packages that turn out to lack wheels once others are widened are widened too, for a few rounds.
std::optional<std::string> WayFinder::try_widening(Loosened loosened) {
  for (const auto& python : m_pythons) {
    for (int round = 0; round < k_most_rounds && std::chrono::steady_clock::now() < m_deadline; ++round) {
      const auto wider = probe(m_session, python, {.loosened = loosened, .deadline = m_deadline});
      if (!wider || !wider->solution) break;
      if (wider->complete()) return hint_of(*wider, loosened);
      const auto before = loosened.size();
      for (const auto& failure : wider->no_wheels) loosened.merge(suspects(failure, m_session.request()));
      for (const auto& name : wider->to_build) loosened.merge(suspects({.package = name}, m_session.request()));
      if (loosened.size() == before) break;
    }
  }
  return std::nullopt;
}

// A hint must not lead into what late bounds keep apart.
std::optional<std::string> WayFinder::hint_of(const Probe& wider, const Loosened& loosened) {
  const auto read = [&](const Probe& probe) {
    return parse_lock(*probe.solution->lock_text, "uv's answer", probe.python.minor);
  };
  auto lock = read(wider);
  if (!lock) return std::nullopt;
  std::vector<std::string> bounds;
  for (const auto& bound : late_bounds(*lock)) bounds.push_back(bound.requirement);
  if (!bounds.empty()) {
    const auto bounded =
        probe(m_session, wider.python, {.loosened = loosened, .bounds = bounds, .deadline = m_deadline});
    if (bounded && bounded->complete()) lock = read(*bounded);
  }
  return lock ? way_out(*lock, loosened, m_session.request()) : std::nullopt;
}

void WayFinder::add_hints(Error& reason, const Loosened& suspects) {
  const auto add = [&](std::optional<std::string> hint) {
    if (!hint || std::ranges::find(reason.hints, *hint) != reason.hints.end()) return false;
    reason.hints.push_back(std::move(*hint));
    return true;
  };
  std::size_t found = 0;
  for (const auto& [name, ignored] : suspects) {
    if (found == k_most_hints) return;
    for (const Width width : {Width::same_major, Width::any}) {
      if (!add(try_widening({{name, width}}))) continue;
      ++found;
      break;
    }
  }
  if (found == 0 && suspects.size() > 1) add_joint_hint(reason, suspects);
}

void WayFinder::add_joint_hint(Error& reason, const Loosened& suspects) {
  auto hint = suspects.empty() ? std::nullopt : try_widening(all_at(suspects, Width::any));
  if (hint && std::ranges::find(reason.hints, *hint) == reason.hints.end()) reason.hints.push_back(std::move(*hint));
}

void WayFinder::add_next_release(Error& reason, const UvFailure& without_wheels) const {
  const auto pinned = project::Version::parse(without_wheels.version);
  const auto* files = m_session.files_of(without_wheels.package);
  if (!pinned || files == nullptr) return;
  std::optional<project::Version> next;
  std::string python_of_next;
  for (const auto& python : m_pythons) {
    const Tags tags = Tags::for_python(python.minor, glibc_minor_of(python.suite));
    for (const auto& file : *files) {
      const auto wheel = parse_wheel_name(file.artifact.filename);
      if (!wheel || file.yanked == Yanked::yes || !tags.rank(*wheel)) continue;
      const auto version = project::Version::parse(wheel->version);
      if (!version || version->is_prerelease() || *version <= *pinned || (next && *next <= *version)) continue;
      next = *version;
      python_of_next = python.minor;
    }
  }
  if (next)
    reason.with_hint(fmt::format("{} {} is the first release after {} with a wheel for Python {}",
                                 without_wheels.package, next->text(), pinned->text(), python_of_next));
}

}  // namespace startrail::lock
