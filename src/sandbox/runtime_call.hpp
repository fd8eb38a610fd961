// The call of crun or runc that starts a prepared bundle.
#pragma once

#include <sys/types.h>

#include "base/error.hpp"
#include "sandbox/root_filesystem.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

// Runs `RUNTIME run --detach` and returns init's pid; init is then a child of this process (which is a subreaper).
// Errors: unsupported, naming what the runtime said.
[[nodiscard]] Result<pid_t> run_bundle(const Support& support, const std::string& id, const ScratchPaths& paths,
                                       Stdio stdio, int init_socket);

// crun 1.x refuses to start where cgroup v1 and v2 are mounted side by side; this hides v2 from it, in this process's
// mount namespace only.
void hide_second_hierarchy(const Support& support);

}  // namespace startrail::sandbox
