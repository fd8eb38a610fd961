// The processes of a container's PID namespace, counted through its own /proc: how memory is watched
// where no control group does it.
#pragma once

#include <chrono>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/units.hpp"

namespace startrail::sandbox {

class ProcessCensus {
 public:
  // `proc` is a directory descriptor of a /proc (the container's).
  explicit ProcessCensus(base::Fd proc) : m_proc(std::move(proc)) {}
  [[nodiscard]] static Result<ProcessCensus> of_container(pid_t init);

  // Resident memory of all processes, and `files` that lie in memory whether or not somebody maps them. Pages that
  // several share count once, by their proportional set size; that walk over page tables is done at most every ten
  // seconds, or when `near` is exceeded, and scales the cheap sums in between.
  [[nodiscard]] Bytes memory(std::optional<Bytes> near, Bytes files = {});
  // Processes, init included.
  [[nodiscard]] int count() const;

 private:
  base::Fd m_proc;
  double m_shared_factor = 1;
  std::chrono::steady_clock::time_point m_weighed{};
};

}  // namespace startrail::sandbox
