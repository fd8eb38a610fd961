// The kernel's mount interfaces, old and new (mount(2), open_tree(2), mount_setattr(2), move_mount(2)),
// with descriptors and Results. Wrapped here because glibc before 2.36 declares none of the new ones.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/files.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

// Mounts made from here on stay in this mount namespace; those of the host still arrive.
[[nodiscard]] Result<void> stop_propagation();

[[nodiscard]] Result<void> mount_tmpfs(const fs::path& target, const std::string& options);
[[nodiscard]] Result<void> mount_overlay(const fs::path& target, const std::string& options);
// Lazily, so that a mount in use goes too; not mounted is fine.
void unmount(const fs::path& target);

struct TreeOptions {
  Access access = Access::read_write;
  bool with_submounts = true;
  int idmap_namespace = -1;  // a user namespace whose map the tree gets; -1: none
};
// A detached copy of the mount tree at `source` (an O_PATH descriptor): nosuid, nodev, private, so that nothing mounted
// later on the host arrives in it, and read-only or idmapped as asked. `name` is for errors.
// Errors: permission; unsupported when the filesystem refuses the id map.
[[nodiscard]] Result<base::Fd> clone_tree(const base::Fd& source, const fs::path& name, const TreeOptions& options);
// Attaches it over what `target` (an O_PATH descriptor) is open on.
[[nodiscard]] Result<void> attach_tree(const base::Fd& tree, const base::Fd& target, const std::string& name);

struct IdMap {
  uid_t file_uid = 0, uid = 0;  // files of file_uid appear as uid's; both directions, all other ids as they are
  gid_t file_gid = 0, gid = 0;
};
// A user namespace that holds `map`, for TreeOptions::idmap_namespace. Needs root.
[[nodiscard]] Result<base::Fd> user_namespace_with(const IdMap& map);
// The lines of a uid_map or gid_map (user_namespaces(7)) that swap two ids and keep all others.
[[nodiscard]] std::string swapping_map(unsigned first, unsigned second);

}  // namespace startrail::sandbox
