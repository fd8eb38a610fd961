// What old sources need to build and don't say, learnt from how their builds fail.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lock/uv_failure.hpp"

namespace startrail::lock {

// Further build requirements by package: what old sdists import in setup.py without declaring it.
using BuildRequirements = std::map<std::string, std::vector<std::string>>;

// What a build gets beside what its own pyproject.toml asks for.
struct BuildHelp {
  std::vector<std::string> constraints;  // "setuptools<81"
  BuildRequirements requirements;        // by package
  // What packages need that can't be asked, since their builds import torch: by package. They are not built to resolve.
  BuildRequirements metadata;
};
// Learns from a failed build; false when nothing more can be done. Adds a note on what it does.
[[nodiscard]] bool learn(BuildHelp& help, const UvFailure& failure, std::vector<std::string>& notes);
// `package` must be built against the torch that the resolution leads to, so it isn't built before. False when that is
// known already.
bool learn_torch(BuildHelp& help, const std::string& package, std::vector<std::string>& notes);
// What a build lacks that says so: not to be had by one more requirement of the build.
inline constexpr std::string_view k_torch_module = "torch";

// uv.toml text that gives `help.requirements` and `help.metadata`. `from_elsewhere`: packages that no index has.
[[nodiscard]] std::string build_settings(const BuildHelp& help, const std::set<std::string>& from_elsewhere);

// The requirement that provides what setup.py imports: "numpy", "setuptools<81"; "" when none is known.
[[nodiscard]] std::string provider_of(std::string_view module);

// What the user can add for what this build missed: a Debian package for a header or program; "" when none is known.
[[nodiscard]] std::string advice_for(const UvFailure& failure);

}  // namespace startrail::lock
