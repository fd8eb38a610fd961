// What the container sees as "/": layers under a scratch overlay, account and name files, mounts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "sandbox/identity.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

inline constexpr const char* k_init_inside = "/.trail/init";

// Folders below ContainerSpec::scratch. `bundle` is a mount point: a small filesystem in memory that only this
// process's mount namespace has, for what every start makes anew. On a disk those twenty files would take a quarter of
// the start.
struct ScratchPaths {
  fs::path upper, work;  // what the command writes
  fs::path bundle, layer, root, runtime, runtime_log, process_id_file;
};
[[nodiscard]] ScratchPaths scratch_paths(const fs::path& scratch);

class RootFilesystem {
 public:
  // Mounts the overlay on scratch/bundle/rootfs in this process's mount namespace, with a layer of account files and
  // mount points above the image's. An upper directory that overlayfs refuses is replaced by a tmpfs, with a note,
  // unless what it holds is to be kept.
  // Errors: not_found (a layer), unsupported (no overlay here), permission, internal.
  [[nodiscard]] static Result<RootFilesystem> mount(const ContainerSpec& spec, Mode mode, const Identity& identity);

  // Attaches `tree` at `target` inside; the mount point is made where it is missing, never outside the root
  // whatever symlinks the image holds (openat2(2), RESOLVE_IN_ROOT).
  // The target is one that check_target allows, or one of ours. Errors: conflict (a file on a folder), permission.
  [[nodiscard]] Result<void> attach(const base::Fd& tree, const std::string& target, const Identity& identity) const;

  [[nodiscard]] const std::vector<std::string>& notes() const { return m_notes; }
  // The filesystem in memory that holds what is written; invalid where a disk does, and the second time.
  [[nodiscard]] base::Fd take_memory() { return std::move(m_memory); }

 private:
  base::Fd m_root, m_memory;
  std::vector<std::string> m_notes;
};

// A mount of the user's must not hide what the runtime puts there. Errors: invalid_input (a target under /proc, /sys,
// /dev or /.trail, or not absolute).
[[nodiscard]] Result<void> check_target(const std::string& target);

}  // namespace startrail::sandbox
