// The system calls a container's processes may make, as a classic BPF program for seccomp(2).
#pragma once

#include <vector>

#include <linux/filter.h>

namespace startrail::sandbox {

// An allow-list for x86_64. Not listed: EPERM; unknown to this build, clone3 and io_uring: ENOSYS, so that
// libraries fall back to what is allowed. clone() may not make namespaces, socket() no AF_ALG and AF_VSOCK,
// ioctl() no TIOCSTI, personality() only the harmless ones. Built once per call, in microseconds.
// It is loaded by trail-init just before the command's exec: docs/decisions/0005-isolation.md says why.
[[nodiscard]] std::vector<sock_filter> default_filter();

}  // namespace startrail::sandbox
