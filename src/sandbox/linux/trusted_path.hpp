// Opening what root mounts, where others own folders on the way.
#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

// An O_PATH descriptor of `path`, resolved once: owner and tree are then read from the same file. As root, symbolic
// links are followed only where root owns them: whoever owns a folder on the way could else turn a mount of theirs
// into one of anything on this host.
// Errors: not_found, permission (another's link).
[[nodiscard]] Result<base::Fd> open_trusted(const fs::path& path, Mode mode);

}  // namespace startrail::sandbox
