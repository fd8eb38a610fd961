#include "machine/linux/user_namespaces.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

struct Switch {
  std::string_view file;
  std::string_view forbidding;  // the value that forbids
  UserNamespaces verdict;
};

std::vector<Switch> switches() {
  return {
      {"/proc/sys/user/max_user_namespaces",
       "0",
       {.allowed = false,
        .why_not = "user.max_user_namespaces = 0",
        .how_to = "sudo sysctl -w user.max_user_namespaces=15000"}},
      {"/proc/sys/kernel/unprivileged_userns_clone",
       "0",
       {.allowed = false,
        .why_not = "kernel.unprivileged_userns_clone = 0",
        .how_to = "sudo sysctl -w kernel.unprivileged_userns_clone=1"}},
      {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
       "1",
       {.allowed = false,
        .why_not = "kernel.apparmor_restrict_unprivileged_userns = 1 and no AppArmor profile for trail",
        .how_to = "install the startrail package, which brings the profile, or "
                  "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"}},
  };
}

}  // namespace

ProbeOutcome probe_user_namespace() {
  const pid_t child = ::fork();
  if (child < 0) return ProbeOutcome::no_namespace;
  if (child == 0) {
    if (::unshare(CLONE_NEWUSER) != 0) ::_exit(1);
    ::_exit(::unshare(CLONE_NEWNS) == 0 ? 0 : 2);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 1) return ProbeOutcome::no_namespace;
  return WEXITSTATUS(status) == 0 ? ProbeOutcome::allowed : ProbeOutcome::no_capabilities;
}

UserNamespaces explain(const HostPaths& paths, ProbeOutcome outcome) {
  if (outcome == ProbeOutcome::allowed) return {.allowed = true, .why_not = {}, .how_to = {}};
  for (const auto& item : switches())
    if (trimmed(text_of(at(paths, item.file))) == item.forbidding) return item.verdict;
  if (outcome == ProbeOutcome::no_capabilities)
    return {.allowed = false,
            .why_not = "a security module lets user namespaces be made but takes their capabilities away",
            .how_to = "ask the administrator to allow unprivileged user namespaces for trail"};
  return {
      .allowed = false,
      .why_not = "the kernel refuses to make a user namespace (a container's seccomp profile, or no support built in)",
      .how_to = "run trail outside of that container, or allow the unshare system call in it"};
}

UserNamespaces survey_user_namespaces(const HostPaths& paths) {
  if (::geteuid() == 0) return {.allowed = true, .why_not = {}, .how_to = {}};
  if (paths.root == "/") return explain(paths, probe_user_namespace());
  for (const auto& item : switches())
    if (trimmed(text_of(at(paths, item.file))) == item.forbidding) return item.verdict;
  return {.allowed = true, .why_not = {}, .how_to = {}};
}

}  // namespace startrail::machine
