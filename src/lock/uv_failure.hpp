// What uv prints when it can't resolve, read for its cause. uv's wording is its own and changes between versions:
// whatever isn't recognised ends up in `reason`, cleaned and short.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace startrail::lock {

enum class FailureKind {
  no_wheels,        // wheels exist, none for this Python or platform, and no source either
  needs_build,      // only by building from source, which was not allowed
  build_failed,     // building from source was allowed and failed
  contradiction,    // requirements that exclude each other
  unknown_package,  // the index has no such project
  unknown_version,  // the project has no such version
  python_version,   // the versions that are left want another Python
  git,              // a repository couldn't be reached, or lacks the revision
  network,          // a server couldn't be reached
  missing_tool,     // uv found no Python to ask, or no git
  too_slow,         // uv was stopped after its time
  other,
};

// "tensorflow==2.15.0 depends on numpy>=1.23.5,<2.0.0"
struct Dependency {
  std::string dependent, needed;
};

struct UvFailure {
  FailureKind kind = FailureKind::other;
  std::string package;                   // normalised; "" when none is named
  std::string version;                   // "" when not one version is meant
  std::vector<std::string> unbuilt;      // packages that uv says need building
  std::string tags;                      // no_wheels: those that exist, "cp37m, cp38"
  std::string host;                      // git, network
  std::string address;                   // git: the repository
  std::string reason;                    // one line
  std::vector<Dependency> dependencies;  // contradiction: what depends on what
  std::vector<std::string> required;     // contradiction: what was asked for, "numpy==2.0.0"
  std::string missing_module;            // build_failed: "pkg_resources", "numpy"
  std::string missing_header;            // build_failed: "ft2build.h"
};

[[nodiscard]] UvFailure parse_uv_failure(std::string_view errors);

// What a build backend printed before it failed: its last words, and the module it missed.
[[nodiscard]] UvFailure parse_build_output(std::string_view output, const std::string& package);

// The project of "numpy[extra]>=1.2,<2" or "numpy{marker}", normalised; "" for text that isn't one.
[[nodiscard]] std::string project_of(std::string_view requirement);

}  // namespace startrail::lock
