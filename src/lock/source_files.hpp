// Sources on their way into a build: fetched, checked against the lock, put where the build sees them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "lock/lock.hpp"
#include "lock/source_wheel.hpp"

namespace startrail::lock {

// What a source build sees: where its source lies inside, and the copy of the project to mount, if any.
struct Source {
  std::string inside;
  std::optional<std::filesystem::path> project;
};
// Puts the source of `package` below `work`, which the build has at k_work_inside.
// Errors: network, not_found, hash_mismatch, permission, no_space.
[[nodiscard]] Result<Source> put_source(const LockedPackage& package, const SourceBuild& build,
                                        const std::filesystem::path& work);

}  // namespace startrail::lock
