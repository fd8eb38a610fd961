#include "sandbox/seccomp_filter.hpp"

#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace startrail::sandbox {
namespace {

// Calls newer than the oldest headers we build with (Linux 5.15, arch/x86/entry/syscalls/syscall_64.tbl).
constexpr int k_futex_waitv = 449, k_set_mempolicy_home_node = 450, k_cachestat = 451, k_fchmodat2 = 452,
              k_map_shadow_stack = 453, k_futex_wake = 454, k_futex_wait = 455, k_futex_requeue = 456, k_mseal = 462,
              k_setxattrat = 463, k_removexattrat = 466;
constexpr int k_last_known = k_removexattrat;

struct Range {
  int first, last;
};

// Everything that an unprivileged program can have a use for and that touches only itself, its own files,
// sockets and children. Absent on purpose: mounts and namespaces, modules, kexec, clocks, swap, quotas,
// keyrings, bpf, perf, userfaultfd, open_by_handle_at, fanotify_init, io ports, kernel log, reboot.
// clang-format off
constexpr auto k_allowed = std::to_array<int>({
    // files
    SYS_read, SYS_write, SYS_open, SYS_close, SYS_stat, SYS_fstat, SYS_lstat, SYS_poll, SYS_lseek, SYS_pread64,
    SYS_pwrite64, SYS_readv, SYS_writev, SYS_access, SYS_pipe, SYS_select, SYS_dup, SYS_dup2, SYS_sendfile, SYS_fcntl,
    SYS_flock, SYS_fsync, SYS_fdatasync, SYS_truncate, SYS_ftruncate, SYS_getdents, SYS_getcwd, SYS_chdir, SYS_fchdir,
    SYS_rename, SYS_mkdir, SYS_rmdir, SYS_creat, SYS_link, SYS_unlink, SYS_symlink, SYS_readlink, SYS_chmod, SYS_fchmod,
    SYS_chown, SYS_fchown, SYS_lchown, SYS_umask, SYS_utime, SYS_utimes, SYS_mknod, SYS_ustat, SYS_statfs, SYS_fstatfs,
    SYS_sync, SYS_syncfs, SYS_readahead, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_getxattr, SYS_lgetxattr,
    SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    SYS_getdents64, SYS_fadvise64, SYS_openat, SYS_mkdirat, SYS_mknodat, SYS_fchownat, SYS_futimesat, SYS_newfstatat,
    SYS_unlinkat, SYS_renameat, SYS_linkat, SYS_symlinkat, SYS_readlinkat, SYS_fchmodat, SYS_faccessat, SYS_pselect6,
    SYS_ppoll, SYS_splice, SYS_tee, SYS_sync_file_range, SYS_vmsplice, SYS_utimensat, SYS_fallocate, SYS_dup3, SYS_pipe2,
    SYS_inotify_init, SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch, SYS_preadv, SYS_pwritev,
    SYS_preadv2, SYS_pwritev2, SYS_name_to_handle_at, SYS_renameat2, SYS_copy_file_range, SYS_statx, SYS_close_range,
    SYS_openat2, SYS_faccessat2, SYS_fanotify_mark, SYS_epoll_create, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_wait,
    SYS_epoll_pwait, SYS_epoll_pwait2, SYS_epoll_ctl_old, SYS_epoll_wait_old, SYS_eventfd, SYS_eventfd2, SYS_signalfd,
    SYS_signalfd4, SYS_io_setup, SYS_io_destroy, SYS_io_getevents, SYS_io_submit, SYS_io_cancel, SYS_io_pgetevents,
    // memory
    SYS_mmap, SYS_mprotect, SYS_munmap, SYS_brk, SYS_mremap, SYS_msync, SYS_mincore, SYS_madvise, SYS_mlock, SYS_munlock,
    SYS_mlockall, SYS_munlockall, SYS_mlock2, SYS_remap_file_pages, SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy,
    SYS_migrate_pages, SYS_move_pages, SYS_memfd_create, SYS_memfd_secret, SYS_membarrier, SYS_pkey_mprotect,
    SYS_pkey_alloc, SYS_pkey_free, SYS_process_madvise, SYS_process_mrelease, SYS_process_vm_readv, SYS_process_vm_writev,
    SYS_shmget, SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_semget, SYS_semop, SYS_semctl, SYS_semtimedop, SYS_msgget,
    SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify,
    SYS_mq_getsetattr,
    // processes, threads, signals, time
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo,
    SYS_rt_sigsuspend, SYS_rt_tgsigqueueinfo, SYS_sigaltstack, SYS_pause, SYS_nanosleep, SYS_getitimer, SYS_setitimer,
    SYS_alarm, SYS_getpid, SYS_fork, SYS_vfork, SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4,
    SYS_waitid, SYS_kill, SYS_tkill, SYS_tgkill, SYS_uname, SYS_gettimeofday, SYS_time, SYS_times, SYS_getrlimit,
    SYS_setrlimit, SYS_prlimit64, SYS_getrusage, SYS_sysinfo, SYS_ptrace, SYS_getuid, SYS_getgid, SYS_setuid, SYS_setgid,
    SYS_geteuid, SYS_getegid, SYS_setpgid, SYS_getppid, SYS_getpgrp, SYS_setsid, SYS_setreuid, SYS_setregid,
    SYS_getgroups, SYS_setgroups, SYS_setresuid, SYS_getresuid, SYS_setresgid, SYS_getresgid, SYS_getpgid, SYS_setfsuid,
    SYS_setfsgid, SYS_getsid, SYS_capget, SYS_capset, SYS_getpriority, SYS_setpriority, SYS_sched_setparam,
    SYS_sched_getparam, SYS_sched_setscheduler, SYS_sched_getscheduler, SYS_sched_get_priority_max,
    SYS_sched_get_priority_min, SYS_sched_rr_get_interval, SYS_sched_yield, SYS_sched_setaffinity, SYS_sched_getaffinity,
    SYS_sched_setattr, SYS_sched_getattr, SYS_modify_ldt, SYS_prctl, SYS_arch_prctl, SYS_gettid, SYS_futex,
    k_futex_waitv, SYS_set_thread_area, SYS_get_thread_area, SYS_set_tid_address, SYS_set_robust_list,
    SYS_get_robust_list, SYS_restart_syscall, SYS_timer_create, SYS_timer_settime, SYS_timer_gettime,
    SYS_timer_getoverrun, SYS_timer_delete, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime,
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_adjtimex, SYS_clock_adjtime, SYS_getcpu, SYS_ioprio_set,
    SYS_ioprio_get, SYS_getrandom, SYS_seccomp, SYS_kcmp, SYS_rseq, SYS_pidfd_open, SYS_pidfd_send_signal,
    SYS_pidfd_getfd, SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
    // network
    SYS_connect, SYS_accept, SYS_accept4, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_shutdown, SYS_bind,
    SYS_listen, SYS_getsockname, SYS_getpeername, SYS_socketpair, SYS_setsockopt, SYS_getsockopt, SYS_recvmmsg,
    SYS_sendmmsg,
    // newer than some headers
    k_set_mempolicy_home_node, k_cachestat, k_fchmodat2, k_map_shadow_stack, k_futex_wake, k_futex_wait, k_futex_requeue,
    k_mseal, k_setxattrat, k_setxattrat + 1, k_setxattrat + 2, k_removexattrat,
});
// clang-format on

// Missing rather than forbidden, so that libraries use their older way: glibc's clone() for clone3 (whose flags
// lie in memory, out of a filter's sight), epoll for io_uring.
constexpr std::array k_not_there{SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};

constexpr std::uint32_t k_namespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr std::uint32_t k_allow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t k_forbid = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t k_missing = SECCOMP_RET_ERRNO | ENOSYS;

std::vector<Range> allowed_ranges() {
  auto numbers = k_allowed;
  std::ranges::sort(numbers);
  std::vector<Range> ranges;
  for (const int number : numbers) {
    if (!ranges.empty() && number <= ranges.back().last + 1) {
      ranges.back().last = number;
    } else {
      ranges.push_back({number, number});
    }
  }
  return ranges;
}

class Program {
 public:
  void load(std::size_t offset) { m_code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset32(offset))); }
  void give(std::uint32_t action) { m_code.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
  void when(std::uint16_t test, std::uint32_t value, std::uint32_t action) {
    jump(test, value, 0, 1);
    give(action);
  }
  void when_below(std::uint32_t value, std::uint32_t action) {
    jump(BPF_JGE, value, 1, 0);
    give(action);
  }
  void unless_equal(std::uint32_t value, std::uint32_t action) {
    jump(BPF_JEQ, value, 1, 0);
    give(action);
  }
  // Decides this call by its argument: what `body` adds must end in a return.
  template <class Body>
  void call(long number, Body&& body) {
    const std::size_t start = m_code.size();
    jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 0);
    body();
    m_code[start].jf = static_cast<std::uint8_t>(m_code.size() - start - 1);
  }
  [[nodiscard]] std::vector<sock_filter> take() { return std::move(m_code); }

 private:
  void jump(std::uint16_t test, std::uint32_t value, std::uint8_t if_true, std::uint8_t if_false) {
    m_code.push_back(BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), value, if_true, if_false));
  }
  static std::uint32_t offset32(std::size_t offset) { return static_cast<std::uint32_t>(offset); }
  std::vector<sock_filter> m_code;
};

// The low half of an argument (x86_64 is little-endian); the kernel reads no more of these four.
constexpr std::size_t low_half(int argument) {
  return offsetof(seccomp_data, args) + sizeof(std::uint64_t) * static_cast<std::size_t>(argument);
}

void add_argument_rules(Program& program) {
  program.call(SYS_ioctl, [&] {
    program.load(low_half(1));
    program.when(BPF_JEQ, TIOCSTI, k_forbid);  // typing into a terminal that others read
    program.when(BPF_JEQ, 0x541c, k_forbid);   // TIOCLINUX: the same through a virtual console's selection
    program.give(k_allow);
  });
  program.call(SYS_clone, [&] {
    program.load(low_half(0));
    program.when(BPF_JSET, k_namespaces, k_forbid);
    program.give(k_allow);
  });
  program.call(SYS_socket, [&] {
    program.load(low_half(0));
    program.when(BPF_JEQ, AF_ALG, k_forbid);
    program.when(BPF_JEQ, 40 /* AF_VSOCK */, k_forbid);
    program.give(k_allow);
  });
  program.call(SYS_personality, [&] {
    program.load(low_half(0));
    // Linux, its 32-bit view, UNAME26 with either, and "tell me".
    for (const std::uint32_t persona : {0U, 8U, 0x20000U, 0x20008U, 0xffffffffU})
      program.when(BPF_JEQ, persona, k_allow);
    program.give(k_forbid);
  });
}

}  // namespace

std::vector<sock_filter> default_filter() {
  Program program;
  program.load(offsetof(seccomp_data, arch));
  // Another architecture's numbers mean other calls; our images hold no programs of any other.
  program.unless_equal(AUDIT_ARCH_X86_64, k_missing);
  program.load(offsetof(seccomp_data, nr));
  add_argument_rules(program);
  for (const long number : k_not_there) program.when(BPF_JEQ, static_cast<std::uint32_t>(number), k_missing);
  // Ascending, so the first range that ends above the number decides. The kernel remembers the answer for
  // calls that need no argument (seccomp_cache_prepare), so the length of this walk does not matter.
  for (const auto& range : allowed_ranges()) {
    program.when_below(static_cast<std::uint32_t>(range.first), k_forbid);
    program.when_below(static_cast<std::uint32_t>(range.last) + 1, k_allow);
  }
  program.when_below(k_last_known + 1, k_forbid);
  program.give(k_missing);  // newer calls, and the x32 ABI
  return program.take();
}

}  // namespace startrail::sandbox
