// The trees that go into a container, detached and ready, and the identity that their owners allow.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "sandbox/root_filesystem.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

struct PlannedMount {
  base::Fd tree;
  std::string target;
};

struct MountPlan {
  Identity identity;
  std::vector<PlannedMount> mounts;  // outer targets before those inside them
};

// Runs in this process's own namespaces. Root: mounts of Ownership::caller get an id map from their folder's owner to
// the unprivileged uid; if one filesystem refuses, none is mapped and the identity is another (unmapped_identity).
// Errors: not_found (a source), invalid_input (a target), unsupported (root's files that can't be mapped), permission
// (another's link on root's way to a source), conflict (a source that isn't the expected one).
[[nodiscard]] Result<MountPlan> plan_mounts(const ContainerSpec& spec, Mode mode, uid_t caller_uid, gid_t caller_gid);

// Trees of ours: driver files, the host's CA certificates (unless a mount of the user's has their place), /sys where it
// is the host's, and init.
[[nodiscard]] Result<void> add_own_mounts(MountPlan& plan, const ContainerSpec& spec, Mode mode);

}  // namespace startrail::sandbox
