// Wheel file names and PEP 425 compatibility tags: which wheel fits an image, and which fits best.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace startrail::lock {

// The parts of NAME-VERSION(-BUILD)?-PYTHON-ABI-PLATFORM.whl (PyPA binary distribution format).
struct WheelName {
  std::string distribution, version, build;
  std::vector<std::string> pythons, abis, platforms;
};
// Errors: invalid_input.
[[nodiscard]] Result<WheelName> parse_wheel_name(std::string_view filename);

// The tags that CPython `minor` on x86_64 with glibc 2.`glibc_minor` accepts, best first (as pip orders them).
class Tags {
 public:
  [[nodiscard]] static Tags for_python(std::string_view minor, int glibc_minor);
  // 0 is the best fit; nullopt when the wheel can't be installed.
  [[nodiscard]] std::optional<int> rank(const WheelName& wheel) const;

 private:
  void add(const std::string& tag);
  std::map<std::string, int, std::less<>> m_ranks;
};

// The CPython minors ("3.8", "3.9") for which `filename` works on Linux x86_64, of those from 3.5 to 3.15;
// every one of them for a pure wheel.
[[nodiscard]] std::vector<std::string> pythons_of(const WheelName& wheel);

}  // namespace startrail::lock
