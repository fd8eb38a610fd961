// PEP 508 environment markers, evaluated for the one platform that images are made for: CPython on Linux x86_64.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::lock {

struct MarkerEnvironment {
  std::map<std::string, std::string, std::less<>> values;        // "python_version" → "3.11"
  std::set<std::string, std::less<>> extras, dependency_groups;  // PEP 751 adds these two sets
};

// What a marker sees under Python `minor` ("3.11") of the Debian suite that has it.
[[nodiscard]] MarkerEnvironment marker_environment(std::string_view minor);

// An empty marker is true. Errors: invalid_input, saying what was expected and where.
[[nodiscard]] Result<bool> evaluate_marker(std::string_view marker, const MarkerEnvironment& environment);

}  // namespace startrail::lock
