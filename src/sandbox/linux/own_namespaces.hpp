// The namespaces this process enters before it can mount anything.
#pragma once

#include "base/error.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

// Root: a mount namespace. Rootless: a user namespace, in which the caller is 0, and a mount namespace.
// A process enters once. Errors: unsupported (naming what forbids it), internal (more than one thread).
[[nodiscard]] Result<void> enter_own_namespaces(Mode mode);

}  // namespace startrail::sandbox
