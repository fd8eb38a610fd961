#include "sandbox/linux/own_namespaces.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/files.hpp"
#include "sandbox/linux/mount_calls.hpp"

namespace startrail::sandbox {
namespace {

Result<void> write_line(const char* file, std::string_view line) {
  const base::Fd fd = TRY(base::open_file(file, O_WRONLY));
  return base::write_all(fd.get(), line, file);
}

Error cannot_unshare(int reason) {
  // unshare(2): EINVAL for CLONE_NEWUSER means that this process has threads.
  if (reason == EINVAL) return base::error(ErrorCode::internal, "a container was started from a process with threads");
  Error error = base::error(ErrorCode::unsupported, "the kernel refused a user namespace");
  error.with_context(base::errno_error("unshare(CLONE_NEWUSER)", reason).message);
  return error.with_hint("`trail doctor` names the setting that forbids it")
      .with_hint("`trail run --isolation none` runs without a container, and the record says so");
}

Result<void> enter_user_namespace() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return fail(cannot_unshare(errno));
  // user_namespaces(7): a single id of one's own needs no helper, once setgroups(2) is given up.
  TRY(write_line("/proc/self/uid_map", fmt::format("0 {} 1", uid)));
  TRY(write_line("/proc/self/setgroups", "deny"));
  return write_line("/proc/self/gid_map", fmt::format("0 {} 1", gid));
}

}  // namespace

Result<void> enter_own_namespaces(Mode mode) {
  if (mode == Mode::rootless) {
    TRY(enter_user_namespace());
  } else if (::unshare(CLONE_NEWNS) != 0) {
    return fail(base::errno_error("cannot create a mount namespace", errno));
  }
  return stop_propagation();
}

}  // namespace startrail::sandbox
