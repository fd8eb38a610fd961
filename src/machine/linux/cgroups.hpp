// Control groups, as far as a survey needs them: where they are mounted, and what they allow this process.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.hpp"

namespace startrail::machine {

struct CgroupMount {
  bool unified = false;                  // cgroup2
  std::filesystem::path inside;          // mountinfo's "root": which part of the hierarchy is mounted here
  std::filesystem::path mount_point;     // absolute on the host, without HostPaths::root
  std::vector<std::string> controllers;  // v1: of the super options
};

// Every cgroup filesystem in /proc/self/mountinfo (proc(5)).
[[nodiscard]] std::vector<CgroupMount> cgroup_mounts(const HostPaths& paths);

// The groups that bound this process for a controller, innermost first, as readable directories: its own
// and all parents up to the mount point. Empty when the controller isn't mounted.
// A group outside of what is mounted (a container's view) is taken as the mount point itself.
[[nodiscard]] std::vector<std::filesystem::path> bounding_groups(const HostPaths& paths,
                                                                 const std::vector<CgroupMount>& mounts,
                                                                 std::string_view controller);

[[nodiscard]] Cgroups survey_cgroups(const HostPaths& paths, const std::vector<CgroupMount>& mounts);

// Files of a group differ between v1 and v2; both names are tried.
struct LimitFile {
  std::string_view v1, v2;
};
// The smallest number that this file holds in any of the groups; "max" and v1's huge default are no limit.
[[nodiscard]] std::optional<Bytes> smallest_limit(const std::vector<std::filesystem::path>& groups, LimitFile file);

}  // namespace startrail::machine
