// The mounts that a container left in this process's own mount namespace.
#pragma once

#include <filesystem>

namespace startrail::supervise {

// Detaches every mount below `folder`, so that it can be removed while this process lives on. Only mounts of this
// process's namespace are seen, so a folder without a container is left as it is.
void detach_mounts_below(const std::filesystem::path& folder);

}  // namespace startrail::supervise
