// Packages without a wheel, built for an image.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "lock/lock.hpp"
#include "machine/machine.hpp"

namespace startrail::image {

struct SourceBuild {
  std::string suite;                     // of the lock; each suite has caches of its own
  std::filesystem::path base;            // root of the base: its Python builds, its compiler compiles
  std::filesystem::path lock_directory;  // the project: what the lock's relative paths are relative to
  std::filesystem::path state_root;      // tools and caches live below
  std::filesystem::path output;          // an existing folder; the wheel is put here
  const lock::Lock* lock = nullptr;      // complete; for packages that are compiled against its torch
};

// The wheel of `package`, which is of any kind but wheel, by its PEP 517 backend inside the sandbox. Locking has built
// it already where it could, and kept it: see lock::build_source_wheel, which says what becomes of editables, too.
// Errors: network, hash_mismatch, not_found, refused (it doesn't build), unsupported (no sandbox), no_space.
[[nodiscard]] Result<std::filesystem::path> build_wheel(const lock::LockedPackage& package, const SourceBuild& build,
                                                        const machine::Machine& machine, Reporter& reporter);

}  // namespace startrail::image
