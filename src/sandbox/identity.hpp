// Who the container's process is, and the account files that say so inside.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

// Inside, a root caller's command runs as this uid and gid: no account of the host's has it.
inline constexpr unsigned k_unprivileged_id = 100000;

// Rootless: the caller's own ids.
[[nodiscard]] Identity caller_identity(uid_t uid, gid_t gid);
// Root, with file owners mapped.
[[nodiscard]] Identity mapped_identity();
// Root, where the filesystem of the caller's files can't map owners: SUDO_UID, or the owner of `reference`.
// Errors: unsupported when both are root.
[[nodiscard]] Result<Identity> unmapped_identity(const fs::path& reference);

// `passwd` (or `group`) with an entry for the identity, found before any other of the same number or name.
[[nodiscard]] std::string with_user(std::string_view passwd, const Identity& identity, std::string_view home);
[[nodiscard]] std::string with_group(std::string_view group, const Identity& identity);

}  // namespace startrail::sandbox
