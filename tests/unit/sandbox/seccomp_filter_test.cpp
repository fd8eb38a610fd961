#include "sandbox/seccomp_filter.hpp"

#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace startrail::sandbox {
namespace {

// errno of the call, or 0, in a process under the filter.
template <class Call>
int under_filter(Call call) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto code = default_filter();
    const sock_fprog program{.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
      ::_exit(255);
    errno = 0;
    ::_exit(call() == -1 ? errno : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(SeccompFilter, fits_what_init_can_take) {
  EXPECT_LT(default_filter().size(), 512U);
  EXPECT_GT(default_filter().size(), 50U);
}

TEST(SeccompFilter, ordinary_calls_pass) {
  EXPECT_EQ(under_filter([] { return ::getpid() > 0 ? 0 : -1; }), 0);
  EXPECT_EQ(under_filter([] { return ::socket(AF_INET, SOCK_STREAM, 0); }), 0);
  EXPECT_EQ(under_filter([] { return ::fork() >= 0 ? 0 : -1; }), 0);
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(SYS_getrandom, nullptr, 0, 0)); }), 0);
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(SYS_personality, 0xffffffffUL)); }), 0);
}

TEST(SeccompFilter, namespaces_cannot_be_made) {
  EXPECT_EQ(under_filter([] { return ::unshare(CLONE_NEWUSER); }), EPERM);
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }),
            EPERM);
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0)); }),
            EPERM);
}

TEST(SeccompFilter, clone3_is_missing_so_that_libraries_use_clone) {
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(SYS_clone3, nullptr, 0)); }), ENOSYS);
}

TEST(SeccompFilter, calls_that_change_the_host_are_refused) {
  for (const long number :
       {SYS_mount,       SYS_umount2,      SYS_pivot_root, SYS_init_module,       SYS_kexec_load, SYS_reboot,
        SYS_swapon,      SYS_settimeofday, SYS_bpf,        SYS_perf_event_open,   SYS_keyctl,     SYS_add_key,
        SYS_request_key, SYS_userfaultfd,  SYS_setns,      SYS_open_by_handle_at, SYS_chroot,     SYS_sethostname,
        SYS_iopl,        SYS_quotactl,     SYS_syslog})
    EXPECT_EQ(under_filter([number] { return static_cast<int>(::syscall(number, 0, 0, 0, 0, 0)); }), EPERM) << number;
}

TEST(SeccompFilter, new_mount_calls_are_refused_too) {
  for (const long number : {SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsmount, SYS_mount_setattr})
    EXPECT_EQ(under_filter([number] { return static_cast<int>(::syscall(number, 0, 0, 0, 0, 0)); }), EPERM) << number;
}

TEST(SeccompFilter, calls_of_a_newer_kernel_and_io_uring_are_missing) {
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(1000)); }), ENOSYS);
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(SYS_io_uring_setup, 1, nullptr)); }), ENOSYS);
}

TEST(SeccompFilter, the_x32_interface_is_missing) {
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(0x40000000L + SYS_getpid)); }), ENOSYS);
}

TEST(SeccompFilter, dangerous_arguments_are_refused) {
  EXPECT_EQ(under_filter([] { return ::ioctl(0, TIOCSTI, "x"); }), EPERM);
  EXPECT_EQ(under_filter([] { return ::socket(AF_ALG, SOCK_SEQPACKET, 0); }), EPERM);
  EXPECT_EQ(under_filter([] { return static_cast<int>(::syscall(SYS_personality, 0x0400000UL)); }), EPERM);
}

}  // namespace
}  // namespace startrail::sandbox
