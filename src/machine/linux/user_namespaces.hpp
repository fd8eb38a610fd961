// May this caller make a user namespace with capabilities in it?
#pragma once

#include <string>

#include "machine/machine.hpp"

namespace startrail::machine {

enum class ProbeOutcome { allowed, no_namespace, no_capabilities };

// Tries it in a child: unshare(CLONE_NEWUSER), then a mount namespace, which needs CAP_SYS_ADMIN in the new one
// (AppArmor may grant the first without the second). Takes about a millisecond.
[[nodiscard]] ProbeOutcome probe_user_namespace();

// The verdict for an ordinary caller, explained by the sysctls below `paths`.
[[nodiscard]] UserNamespaces explain(const HostPaths& paths, ProbeOutcome outcome);

// Root needs none and is always allowed. The probe asks the running kernel, so with a root other than "/" only the
// sysctls speak.
[[nodiscard]] UserNamespaces survey_user_namespaces(const HostPaths& paths);

}  // namespace startrail::machine
