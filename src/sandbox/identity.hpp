// Who the container's process is, and the account files that say so inside.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

// A root caller's command runs as a uid and gid (one number for both) of its run's own, so that neither another run nor
// any user can signal or trace it, and the kernel counts its processes alone. Derived from the run's id, from 1000000
// to 1999999 (tar's octal fields hold up to 2097151), past whatever the account files in `etc` give to anybody: users,
// groups, and the ranges of /etc/subuid and /etc/subgid. The same id gets the same number while those stay.
inline constexpr unsigned k_first_run_uid = 1'000'000, k_run_uids = 1'000'000;
[[nodiscard]] unsigned run_uid(std::string_view id, const fs::path& etc = "/etc");

// Rootless: the caller's own ids.
[[nodiscard]] Identity caller_identity(uid_t uid, gid_t gid);
// Root, with file owners mapped to the run's own uid.
[[nodiscard]] Identity mapped_identity(std::string_view id);
// Root, where the filesystem of the caller's files can't map owners: SUDO_UID, or the owner of `reference`.
// Errors: unsupported when both are root.
[[nodiscard]] Result<Identity> unmapped_identity(const fs::path& reference, uid_t owner, gid_t group);

// `passwd` (or `group`) with an entry for the identity, found before any other of the same number or name.
[[nodiscard]] std::string with_user(std::string_view passwd, const Identity& identity, std::string_view home,
                                    std::string_view shell = "/bin/bash");
[[nodiscard]] std::string with_group(std::string_view group, const Identity& identity);
// `group` with tty's number replaced: sshd and openpty give a terminal to that group, which must be the one that the
// container's terminals have.
[[nodiscard]] std::string with_terminal_group(std::string_view group, unsigned gid);

}  // namespace startrail::sandbox
