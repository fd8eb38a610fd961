// `trail lock`, and the first half of `trail run`: from a folder to a lock that holds on this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/installation.hpp"
#include "app/phases.hpp"
#include "base/reporter.hpp"
#include "catalog/catalog.hpp"
#include "lock/lock.hpp"
#include "project/requirements.hpp"

namespace startrail::app {

enum class Upgrade { no, yes };
enum class WriteLock { no, yes };
enum class Explain { no, yes };

struct LockRequest {
  std::filesystem::path folder = ".";
  std::vector<std::string> requirement_files;  // -r
  catalog::ChooseOptions choose;               // --cpu, --python
  std::optional<std::string> framework;        // --framework torch==2.10.0
  Upgrade upgrade = Upgrade::no;
  WriteLock write = WriteLock::yes;  // no: --dry-run
  Explain explain = Explain::no;     // yes: `steps` are told for a reused lock too
};

struct LockedProject {
  std::filesystem::path folder;  // absolute
  project::Requirements needs;
  lock::Lock lock;
  std::filesystem::path file;  // where the lock is, or would be
  bool reused = false;
  std::vector<std::string> steps;  // how the combination was chosen; empty when reused and not asked for
};

// The folder as an absolute path, proven to be a readable folder.
// Errors: not_found, invalid_input (a file), permission.
[[nodiscard]] Result<std::filesystem::path> project_folder(const std::filesystem::path& folder);

// Reads the folder; fetches the module map first when only the code's imports can tell what it needs.
[[nodiscard]] Result<project::Requirements> read_project(const Installation& installation, const LockRequest& request,
                                                         Reporter& reporter);

// The framework that trail.toml's `image` names, where no flag names one; and what `choose` is to know of either.
// Errors: not_found, unsupported (no combination), each with the place in trail.toml.
[[nodiscard]] Result<void> settle_framework(LockRequest& request, const project::Requirements& needs);

// The lock beside the code, as it is while it still matches what was read; else resolved and written there.
// A folder that can't be written keeps its lock in the state directory, which a note says.
// Errors: those of project::read, catalog::choose, catalog::check and lock::resolve.
[[nodiscard]] Result<LockedProject> lock_project(const Installation& installation, const machine::Machine& machine,
                                                 const LockRequest& request, Phases& phases, Reporter& reporter);

}  // namespace startrail::app
