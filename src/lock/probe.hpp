// What one Python can do with the requirements, found out without building anything.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lock/uv_session.hpp"

namespace startrail::lock {

// One resolution attempt after another, each leaving out the package that stopped the one before, until uv has an
// answer: so that every obstacle is known, not the first only.
struct Probe {
  catalog::PythonChoice python;
  std::optional<Answer> solution;     // the last answer, of all packages but those below
  std::vector<UvFailure> no_wheels;   // packages without a wheel for this Python, and without a source
  std::vector<std::string> to_build;  // packages that only have a source for this Python
  std::optional<UvFailure> obstacle;  // what no leaving out can heal
  std::string errors;                 // uv's words on the obstacle

  [[nodiscard]] bool complete() const { return solution && no_wheels.empty() && to_build.empty(); }
  [[nodiscard]] bool buildable() const { return solution && no_wheels.empty(); }
};

struct ProbeOptions {
  Loosened loosened;
  std::vector<std::string> bounds;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};
[[nodiscard]] Result<Probe> probe(UvSession& session, const catalog::PythonChoice& python, const ProbeOptions& options);

}  // namespace startrail::lock
