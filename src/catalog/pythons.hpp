// The Pythons on offer, and their order for a project.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.hpp"
#include "project/requirements.hpp"
#include "project/version.hpp"

namespace startrail::catalog {

struct Offer {
  std::string_view minor, suite, glibc;
};
// Debian's own Python of each suite, in order of preference: the middle one has the most wheels, the newest
// comes next, the oldest last.
[[nodiscard]] const std::vector<Offer>& offers();
[[nodiscard]] std::string shown_offers();  // "3.9, 3.11 and 3.13"

// What the project, or --python, asks for.
struct PythonDemand {
  std::string text;                                         // ">=3.8", "" when nothing is asked
  std::string where;                                        // "environment.yaml:6"
  std::vector<int> minors;                                  // of Python 3 that it allows
  [[nodiscard]] bool allows(std::string_view minor) const;  // "3.11"
};
[[nodiscard]] PythonDemand any_python();
// Errors: invalid_input (not a version set), refused (--python with a minor that isn't offered; Python 2).
[[nodiscard]] Result<PythonDemand> python_demand(const project::Requirements& needs, const ChooseOptions& options);

using HasWheels = std::function<bool(std::string_view minor)>;

// Offers that the demand allows and that have wheels, in order of preference. When Debian has none of the Pythons
// that are asked for: those with wheels, nearest first (of two as near the newer, which still runs older code),
// each with a remark. Empty: none fits.
[[nodiscard]] std::vector<PythonChoice> python_candidates(const PythonDemand& demand, const HasWheels& has_wheels);

// Debian has at least one of the Pythons that are asked for.
[[nodiscard]] bool is_offered(const PythonDemand& demand);

// "2.7 and 3.5 to 3.8": runs of minors shortened.
[[nodiscard]] std::string shown_minors(const std::vector<std::string>& minors);

}  // namespace startrail::catalog
