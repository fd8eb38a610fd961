#include "sandbox/linux/mount_calls.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace startrail::sandbox {
namespace {

using base::errno_error;
using base::Fd;

constexpr unsigned k_recursive = 0x8000;    // AT_RECURSIVE
constexpr unsigned long k_detach = 2;       // MNT_DETACH
constexpr unsigned k_no_follow_umount = 8;  // UMOUNT_NOFOLLOW

long call_mount(const char* source, const char* target, const char* type, unsigned long flags, const char* data) {
  return ::syscall(SYS_mount, source, target, type, flags, data);
}

long set_attributes(int tree, unsigned flags, mount_attr& attributes) {
  return ::syscall(SYS_mount_setattr, tree, "", static_cast<unsigned>(AT_EMPTY_PATH) | flags, &attributes,
                   sizeof attributes);
}

Result<void> map_ids(const Fd& tree, const fs::path& source, int idmap_namespace) {
  mount_attr attributes{
      .attr_set = MOUNT_ATTR_IDMAP, .attr_clr = 0, .propagation = 0, .userns_fd = static_cast<__u64>(idmap_namespace)};
  // A submount whose filesystem can't be mapped must not spoil the rest: then the top alone.
  if (set_attributes(tree.get(), k_recursive, attributes) == 0 || set_attributes(tree.get(), 0, attributes) == 0)
    return {};
  return fail(ErrorCode::unsupported, fmt::format("the filesystem of {} can't map file owners", source.string()));
}

}  // namespace

Result<void> stop_propagation() {
  if (call_mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0) return {};
  return fail(errno_error("cannot separate this process's mounts from the host's", errno));
}

Result<void> mount_tmpfs(const fs::path& target, const std::string& options) {
  if (call_mount("tmpfs", target.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0) return {};
  return fail(errno_error(fmt::format("cannot mount a tmpfs on {}", target.string()), errno));
}

Result<void> mount_overlay(const fs::path& target, const std::string& options) {
  if (call_mount("overlay", target.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) == 0) return {};
  return fail(errno_error(fmt::format("cannot mount an overlay on {}", target.string()), errno));
}

void unmount(const fs::path& target) {
  ::syscall(SYS_umount2, target.c_str(), k_detach | k_no_follow_umount);
}

Result<Fd> clone_tree(const Fd& source, const fs::path& name, const TreeOptions& options) {
  const unsigned depth = options.with_submounts ? k_recursive : 0;
  Fd tree(
      static_cast<int>(::syscall(SYS_open_tree, source.get(), "",
                                 static_cast<unsigned>(AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC) | depth)));
  if (!tree.valid()) return fail(errno_error(fmt::format("cannot mount {}", name.string()), errno));
  mount_attr attributes{.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .attr_clr = 0, .propagation = MS_PRIVATE};
  if (options.access == Access::read_only) attributes.attr_set |= MOUNT_ATTR_RDONLY;
  if (set_attributes(tree.get(), depth, attributes) != 0)
    return fail(errno_error(fmt::format("cannot restrict the mount of {}", name.string()), errno));
  if (options.idmap_namespace >= 0) TRY(map_ids(tree, name, options.idmap_namespace));
  return tree;
}

Result<void> attach_tree(const Fd& tree, const Fd& target, const std::string& name) {
  constexpr unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  if (::syscall(SYS_move_mount, tree.get(), "", target.get(), "", flags) == 0) return {};
  return fail(errno_error(fmt::format("cannot mount {} in the container", name), errno));
}

std::string swapping_map(unsigned first, unsigned second) {
  constexpr unsigned long long k_ids = 0xffffffffULL;  // 4294967295 is "no id" and can't be mapped
  if (first == second) return fmt::format("0 0 {}\n", k_ids);
  const unsigned long long low = std::min(first, second);
  const unsigned long long high = std::max(first, second);
  std::string lines;
  if (low > 0) lines += fmt::format("0 0 {}\n", low);
  lines += fmt::format("{} {} 1\n", low, high);
  if (high > low + 1) lines += fmt::format("{0} {0} {1}\n", low + 1, high - low - 1);
  lines += fmt::format("{} {} 1\n", high, low);
  if (high + 1 < k_ids) lines += fmt::format("{0} {0} {1}\n", high + 1, k_ids - high - 1);
  return lines;
}

namespace {

Result<void> write_map(const std::string& file, const std::string& lines) {
  const Fd fd = TRY(base::open_file(file, O_WRONLY));
  // The kernel takes a map in one write only.
  if (::write(fd.get(), lines.data(), lines.size()) == static_cast<ssize_t>(lines.size())) return {};
  return fail(errno_error(fmt::format("cannot write {}", file), errno));
}

Result<Fd> namespace_of(pid_t holder, const IdMap& map) {
  TRY(write_map(fmt::format("/proc/{}/uid_map", holder), swapping_map(map.file_uid, map.uid)));
  TRY(write_map(fmt::format("/proc/{}/gid_map", holder), swapping_map(map.file_gid, map.gid)));
  return base::open_file(fmt::format("/proc/{}/ns/user", holder), O_RDONLY);
}

}  // namespace

Result<Fd> user_namespace_with(const IdMap& map) {
  // A namespace lives as long as a process or a descriptor holds it: the child only has to exist meanwhile.
  const auto holder = static_cast<pid_t>(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  if (holder < 0) return fail(errno_error("cannot create a user namespace for mapping file owners", errno));
  if (holder == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  auto result = namespace_of(holder, map);
  ::kill(holder, SIGKILL);
  while (::waitpid(holder, nullptr, 0) < 0 && errno == EINTR) {
  }
  return result;
}

}  // namespace startrail::sandbox
