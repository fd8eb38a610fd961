// Ways out of a refusal, each confirmed by asking uv once more.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "lock/probe.hpp"
#include "lock/uv_session.hpp"

namespace startrail::lock {

class WayFinder {
 public:
  // Asks until `deadline`; hints that would take longer to confirm are not given.
  WayFinder(UvSession& session, const std::vector<catalog::PythonChoice>& pythons,
            std::chrono::steady_clock::time_point deadline)
      : m_session(session), m_pythons(pythons), m_deadline(deadline) {}

  // Up to three hints: each suspect's pin widened alone, as little as will do; if no single one helps, all together.
  void add_hints(Error& reason, const Loosened& suspects);
  // One hint, with all of the suspects' pins widened at once.
  void add_joint_hint(Error& reason, const Loosened& suspects);
  // Without asking uv: "ray 1.4.0 is the first release after 1.0.0 with a wheel for Python 3.9", by the index's list.
  void add_next_release(Error& reason, const UvFailure& without_wheels) const;

 private:
  std::optional<std::string> try_widening(Loosened loosened);
  std::optional<std::string> hint_of(const Probe& wider, const Loosened& loosened);

  UvSession& m_session;
  const std::vector<catalog::PythonChoice>& m_pythons;
  std::chrono::steady_clock::time_point m_deadline;
};

}  // namespace startrail::lock
