// The project's own code in the image: as the package that it is, or else as a line of Python's search path.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "lock/lock.hpp"

namespace startrail::lock {

// The project as the editable package that its pyproject.toml makes of it; nullopt when it makes none, or when
// the lock has it or another package of its name already. Errors: permission.
[[nodiscard]] Result<std::optional<LockedPackage>> own_package(const project::Requirements& needs, const Lock& lock);

// An editable that is nothing but a .pth file: `root` below /workspace ends up last on Python's search path, so that
// no folder of the project hides a package. It has no place among PEP 751's packages, since no other tool could
// install it: the lock has it as [tool.startrail] import-root.
[[nodiscard]] LockedPackage import_path(const std::string& root);
// Writes its wheel into `folder` and returns the wheel's path.
[[nodiscard]] Result<std::filesystem::path> write_import_path(const LockedPackage& package,
                                                              const std::filesystem::path& folder);

}  // namespace startrail::lock
