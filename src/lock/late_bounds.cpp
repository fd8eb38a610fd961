#include "lock/late_bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "project/version.hpp"

namespace startrail::lock {
namespace {

struct Rule {
  const char* package;  // releases of this one
  const char* before;   // older than this
  const char* breaks;   // break with this one
  const char* from;     // from this release on
  const char* reason;
};

constexpr const char* k_numpy_1 = "is built for numpy 1 (numpy 2.0 changed the binary interface)";
constexpr const char* k_pkg_resources = "imports pkg_resources, which setuptools has not from 82 on";

constexpr const char* k_packaging = "imports pkg_resources.packaging to compile, which setuptools has not from 70 on";

// First releases built for numpy 2, from the projects' own release notes; those whose older wheels declare numpy<2
// themselves need no rule.
constexpr std::array k_rules{
    Rule{"torch", "2.3", "numpy", "2", k_numpy_1},
    Rule{"tensorflow", "2.18", "numpy", "2", k_numpy_1},
    Rule{"tensorflow-cpu", "2.18", "numpy", "2", k_numpy_1},
    Rule{"pandas", "2.2.2", "numpy", "2", k_numpy_1},
    Rule{"scikit-learn", "1.4.2", "numpy", "2", k_numpy_1},
    Rule{"scikit-image", "0.23", "numpy", "2", k_numpy_1},
    Rule{"matplotlib", "3.8.4", "numpy", "2", k_numpy_1},
    Rule{"h5py", "3.11", "numpy", "2", k_numpy_1},
    Rule{"onnxruntime", "1.19", "numpy", "2", k_numpy_1},
    Rule{"opencv-python", "4.10", "numpy", "2", k_numpy_1},
    Rule{"opencv-python-headless", "4.10", "numpy", "2", k_numpy_1},
    Rule{"opencv-contrib-python", "4.10", "numpy", "2", k_numpy_1},
    Rule{"torch", "2.3", "setuptools", "70", k_packaging},
    Rule{"tensorboard", "2.21", "setuptools", "82", k_pkg_resources},
    Rule{"pytorch-lightning", "2.1", "setuptools", "82", k_pkg_resources},
    Rule{"lightning", "2.1", "setuptools", "82", k_pkg_resources},
    Rule{"torchmetrics", "1.3", "setuptools", "82", k_pkg_resources},
};

const LockedPackage* find(const Lock& lock, std::string_view name) {
  const auto found = std::ranges::find(lock.packages, name, &LockedPackage::name);
  return found == lock.packages.end() ? nullptr : &*found;
}

bool is_before(const std::string& version, const char* bound) {
  const auto left = project::Version::parse(version);
  const auto right = project::Version::parse(bound);
  return left && right && *left < *right;
}

}  // namespace

std::vector<LateBound> late_bounds(const Lock& lock) {
  std::vector<LateBound> bounds;
  for (const auto& rule : k_rules) {
    const auto* package = find(lock, rule.package);
    const auto* broken = find(lock, rule.breaks);
    if (package == nullptr || broken == nullptr || broken->version.empty()) continue;
    if (!is_before(package->version, rule.before) || is_before(broken->version, rule.from)) continue;
    const std::string requirement = fmt::format("{}<{}", rule.breaks, rule.from);
    if (std::ranges::find(bounds, requirement, &LateBound::requirement) != bounds.end()) continue;
    bounds.push_back(
        {.requirement = requirement,
         .reason = fmt::format("{} {} {}", package->name, package->version, rule.reason),
         .package = package->name,
         .broken = rule.breaks,
         .harm = rule.reason == k_numpy_1 ? LateBound::Harm::binary_interface : LateBound::Harm::some_imports});
  }
  return bounds;
}

}  // namespace startrail::lock
