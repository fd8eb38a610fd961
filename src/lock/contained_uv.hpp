// uv, or a build step, inside the sandbox on a base: the only place where code of packages runs before a run does.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "lock/uv_environment.hpp"
#include "machine/machine.hpp"

namespace startrail::lock {

// Where things are inside.
inline constexpr const char* k_work_inside = "/build";
inline constexpr const char* k_project_inside = "/workspace";
inline constexpr const char* k_uv_inside = "/opt/startrail/uv";

struct ContainedCall {
  std::filesystem::path base;                 // root of the base, read-only
  std::vector<std::filesystem::path> layers;  // in place of `base`: those of an image, topmost first
  std::vector<std::pair<std::filesystem::path, std::string>> shown;  // further folders, read-only, and where inside
  std::filesystem::path uv;                                          // read-only at k_uv_inside
  std::filesystem::path work;                    // writable at k_work_inside; its tmp/ becomes HOME and TMPDIR
  std::filesystem::path cache;                   // uv's cache, shared between calls of one suite
  std::optional<std::filesystem::path> project;  // a copy of the project, writable at k_project_inside
  std::string certificates;                      // a bundle of the user's own, or ""
  UvIndexes indexes;
  base::Environment variables;  // further ones
  std::vector<std::string> argv;
  std::chrono::minutes patience{60};  // then it is ended
};

// Network, no host environment, unprivileged.
// Errors: unsupported (no sandbox on this machine), permission, internal.
[[nodiscard]] Result<base::ProcessResult> run_contained_uv(const ContainedCall& call, const machine::Machine& machine);

}  // namespace startrail::lock
