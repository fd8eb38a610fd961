#include "image/without_sync.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <thread>

namespace startrail::image {
namespace {

#if defined(__x86_64__)
constexpr unsigned k_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr unsigned k_architecture = AUDIT_ARCH_AARCH64;
#else
constexpr unsigned k_architecture = 0;  // no program has this: nothing is left out
#endif

constexpr std::array<unsigned, 6> k_calls{SYS_fsync,  SYS_fdatasync,       SYS_sync,
                                          SYS_syncfs, SYS_sync_file_range, SYS_msync};

// Of the calling thread and, as filters are inherited, of what it starts; a thread that ends takes it along.
void leave_out_syncs() {
  std::array<sock_filter, 2 * k_calls.size() + 4> filter{};
  std::size_t length = 0;
  const auto add = [&](sock_filter instruction) { filter[length++] = instruction; };
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
  add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k_architecture, 0, 2 * k_calls.size() + 1));
  add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const unsigned call : k_calls) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO));  // error number 0: done
  }
  add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{.len = static_cast<unsigned short>(length), .filter = filter.data()};
  ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

}  // namespace

Result<base::ProcessResult> run_without_sync(const base::Command& command) {
  Result<base::ProcessResult> result = base::fail(base::ErrorCode::internal, "not run");
  std::jthread([&] {
    leave_out_syncs();
    result = base::run_process(command);
  }).join();
  return result;
}

}  // namespace startrail::image
