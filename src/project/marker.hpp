// PEP 508 environment markers: checked, and judged for a machine that may be known only in part.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::project {

enum class Truth { no, unknown, yes };

// Marker variable → value ("sys_platform" → "linux"). What is absent is unknown.
using MarkerEnvironment = std::map<std::string, std::string, std::less<>>;

// What holds for every run: CPython on Linux. Python's version and the processor are left open.
[[nodiscard]] const MarkerEnvironment& linux_environment();

class Marker {
 public:
  // "" holds everywhere. Errors: invalid_input.
  [[nodiscard]] static Result<Marker> parse(std::string_view text);
  [[nodiscard]] Truth evaluate(const MarkerEnvironment& environment) const;

  struct Node;

 private:
  std::shared_ptr<const Node> m_root;
};

}  // namespace startrail::project
