#include "lock/suite.hpp"

#include <algorithm>
#include <array>

namespace startrail::lock {
namespace {

// Versions of python3 and libc6 in the stable releases of Debian 11, 12 and 13.
const std::array<Suite, 3>& suites() {
  static const std::array<Suite, 3> s_suites{
      Suite{.name = "bullseye", .python = "3.9", .full_python = "3.9.2", .glibc_minor = 31},
      Suite{.name = "bookworm", .python = "3.11", .full_python = "3.11.2", .glibc_minor = 36},
      Suite{.name = "trixie", .python = "3.13", .full_python = "3.13.5", .glibc_minor = 41},
  };
  return s_suites;
}

const Suite* where(std::string Suite::* member, std::string_view value) {
  const auto found = std::ranges::find_if(suites(), [&](const Suite& suite) { return suite.*member == value; });
  return found == suites().end() ? nullptr : &*found;
}

}  // namespace

const Suite* suite_named(std::string_view name) {
  return where(&Suite::name, name);
}
const Suite* suite_with_python(std::string_view minor) {
  return where(&Suite::python, minor);
}

std::string full_python_version(std::string_view minor) {
  const Suite* suite = suite_with_python(minor);
  return suite != nullptr ? suite->full_python : std::string(minor) + ".0";
}

int glibc_minor_of(std::string_view suite) {
  constexpr int k_bookworm_glibc_minor = 36;
  const Suite* known = suite_named(suite);
  return known != nullptr ? known->glibc_minor : k_bookworm_glibc_minor;
}

project::MarkerEnvironment marker_environment(std::string_view minor) {
  auto environment = project::linux_environment();
  const std::string full = full_python_version(minor);
  environment.insert_or_assign("platform_machine", "x86_64");
  environment.insert_or_assign("python_version", std::string(minor));
  environment.insert_or_assign("python_full_version", full);
  environment.insert_or_assign("implementation_version", full);
  // The kernel's words are the host's, which a lock must not depend on.
  environment.insert_or_assign("platform_release", "");
  environment.insert_or_assign("platform_version", "");
  environment.insert_or_assign("extras", "");
  environment.insert_or_assign("dependency_groups", "");
  return environment;
}

}  // namespace startrail::lock
