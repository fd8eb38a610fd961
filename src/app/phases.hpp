// How long each phase of a command took; `trail run --timings` prints it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace startrail::app {

class Phases {
 public:
  using Clock = std::chrono::steady_clock;

  struct Phase {
    std::string name;
    std::chrono::nanoseconds took;
  };

  // Ends the phase that has run since the last call (or since construction).
  void end(std::string_view name) {
    const auto now = Clock::now();
    m_phases.push_back({std::string(name), now - m_last});
    m_last = now;
  }
  // A phase that ran beside the others, on a thread of its own.
  void beside(std::string_view name, std::chrono::nanoseconds took) {
    m_phases.push_back({std::string(name) + " (beside)", took});
  }
  [[nodiscard]] const std::vector<Phase>& all() const { return m_phases; }
  [[nodiscard]] std::chrono::nanoseconds total() const { return m_last - m_begin; }

 private:
  Clock::time_point m_begin = Clock::now();
  Clock::time_point m_last = m_begin;
  std::vector<Phase> m_phases;
};

}  // namespace startrail::app
