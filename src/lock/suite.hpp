// What resolving must know of each Debian suite: its Python, its C library, and what markers see there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "project/marker.hpp"

namespace startrail::lock {

struct Suite {
  std::string name;         // "bookworm"
  std::string python;       // "3.11"
  std::string full_python;  // "3.11.2"
  int glibc_minor = 0;      // 36 for glibc 2.36
};

[[nodiscard]] const Suite* suite_named(std::string_view name);
[[nodiscard]] const Suite* suite_with_python(std::string_view minor);

// "3.11.2" for "3.11"; "3.12.0" for a minor that no suite has.
[[nodiscard]] std::string full_python_version(std::string_view minor);
// The glibc of the suite, or of bookworm for one that isn't known.
[[nodiscard]] int glibc_minor_of(std::string_view suite);

// What PEP 508 markers see in an image: CPython `minor` on Linux x86_64, no extras.
[[nodiscard]] project::MarkerEnvironment marker_environment(std::string_view minor);

}  // namespace startrail::lock
