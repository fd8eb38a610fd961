#include "lock/ways_out.hpp"

#include <algorithm>

#include "lock/lock_text.hpp"
#include "lock/refusal.hpp"

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
      if (wider->complete()) {
        const auto lock = parse_lock(*wider->solution->lock_text, "uv's answer", python.minor);
        return lock ? way_out(*lock, loosened, m_session.request()) : std::nullopt;
      }
      const auto before = loosened.size();
      for (const auto& failure : wider->no_wheels) loosened.merge(suspects(failure, m_session.request()));
      for (const auto& name : wider->to_build) loosened.merge(suspects({.package = name}, m_session.request()));
      if (loosened.size() == before) break;
    }
  }
  return std::nullopt;
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
  if (found == 0 && suspects.size() > 1) add(try_widening(all_at(suspects, Width::any)));
}

}  // namespace startrail::lock
