// Where runs execute.
#pragma once

#include <string>

#include "base/error.hpp"
#include "run/record.hpp"

namespace startrail::run {

class Engine {
 public:
  virtual ~Engine() = default;
  // Returns when the run is accepted (local: its supervisor has its identity in the record).
  [[nodiscard]] virtual Result<void> submit(const std::string& run_id) = 0;
  // Asks for the end; returns at once. A run that already ended is fine.
  [[nodiscard]] virtual Result<void> stop(const std::string& run_id, StopHow how) = 0;
};

}  // namespace startrail::run
