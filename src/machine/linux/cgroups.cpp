#include "machine/linux/cgroups.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

constexpr std::array<std::string_view, 3> k_controllers{"memory", "cpu", "pids"};
// memory.limit_in_bytes says PAGE_COUNTER_MAX when there is none; nobody has that much memory.
constexpr std::uint64_t k_unlimited = 1ULL << 62U;

bool has(const CgroupMount& mount, std::string_view controller) {
  return std::find(mount.controllers.begin(), mount.controllers.end(), controller) != mount.controllers.end();
}

bool writable(const fs::path& directory) {
  return ::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

// "30 23 0:28 /inside /mount/point rw,… shared:1 - cgroup cgroup rw,memory": fields after " - " are the
// type, the source and the super options (proc(5), /proc/pid/mountinfo).
std::optional<CgroupMount> parse_mount(std::string_view line) {
  const auto separator = line.find(" - ");
  if (separator == std::string_view::npos) return std::nullopt;
  const auto place = words(line.substr(0, separator));
  const auto kind = words(line.substr(separator + 3));
  if (place.size() < 5 || kind.size() < 3 || (kind[0] != "cgroup" && kind[0] != "cgroup2")) return std::nullopt;
  CgroupMount mount{.unified = kind[0] == "cgroup2", .inside = place[3], .mount_point = place[4], .controllers = {}};
  if (!mount.unified)
    for (const auto option : split(kind[2], ',')) mount.controllers.emplace_back(option);
  return mount;
}

// This process's group in a hierarchy: "4:memory:/path", or "0::/path" for cgroup2 (cgroups(7)).
fs::path own_group(const HostPaths& paths, std::string_view controller) {
  const std::string text = text_of(at(paths, "/proc/self/cgroup"));
  for (const auto line : lines(text)) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const auto names = split(parts[1], ',');
    const bool found = controller.empty() ? parts[0] == "0" && parts[1].empty()
                                          : std::find(names.begin(), names.end(), controller) != names.end();
    if (found) return fs::path(line.substr(parts[0].size() + parts[1].size() + 2));
  }
  return "/";
}

fs::path directory_of(const HostPaths& paths, const CgroupMount& mount, const fs::path& group) {
  const fs::path mount_point = at(paths, mount.mount_point.string());
  const fs::path relative = group.lexically_relative(mount.inside);
  std::error_code ignored;
  if (!relative.empty() && *relative.begin() != ".." && fs::is_directory(mount_point / relative, ignored))
    return relative == "." ? mount_point : mount_point / relative;
  return mount_point;
}

const CgroupMount* mount_for(const std::vector<CgroupMount>& mounts, std::string_view controller) {
  for (const auto& mount : mounts)
    if (!mount.unified && has(mount, controller)) return &mount;
  for (const auto& mount : mounts)
    if (mount.unified) return &mount;
  return nullptr;
}

CgroupMode mode_of(const std::vector<CgroupMount>& mounts) {
  const bool unified = std::ranges::any_of(mounts, [](const auto& mount) { return mount.unified; });
  const bool legacy = std::ranges::any_of(mounts, [](const auto& mount) { return !mount.unified; });
  if (unified && legacy) return CgroupMode::hybrid;
  if (unified) return CgroupMode::v2;
  return legacy ? CgroupMode::v1 : CgroupMode::none;
}

// v1: a runtime makes its groups below the hierarchy's root.
void survey_legacy(const HostPaths& paths, const std::vector<CgroupMount>& mounts, Cgroups& result) {
  for (const auto controller : k_controllers)
    for (const auto& mount : mounts)
      if (!mount.unified && has(mount, controller) && writable(at(paths, mount.mount_point.string())))
        result.controllers.emplace_back(controller);
  result.writable = !result.controllers.empty();
}

// v2: delegation means a writable group, cgroup.procs and cgroup.subtree_control (cgroups(7), "Cgroups delegation").
void survey_unified(const HostPaths& paths, const std::vector<CgroupMount>& mounts, Cgroups& result) {
  const CgroupMount& mount = *std::ranges::find_if(mounts, [](const auto& item) { return item.unified; });
  const fs::path own = directory_of(paths, mount, own_group(paths, ""));
  result.own = own;
  const bool delegated = writable(own) &&
                         ::faccessat(AT_FDCWD, (own / "cgroup.procs").c_str(), W_OK, AT_EACCESS) == 0 &&
                         ::faccessat(AT_FDCWD, (own / "cgroup.subtree_control").c_str(), W_OK, AT_EACCESS) == 0;
  const std::string text = text_of(own / "cgroup.controllers");
  const auto available = words(text);
  for (const auto controller : k_controllers)
    if (delegated && std::ranges::find(available, controller) != available.end())
      result.controllers.emplace_back(controller);
  result.writable = !result.controllers.empty();
}

}  // namespace

std::vector<CgroupMount> cgroup_mounts(const HostPaths& paths) {
  std::vector<CgroupMount> mounts;
  const std::string text = text_of(at(paths, "/proc/self/mountinfo"));
  for (const auto line : lines(text))
    if (auto mount = parse_mount(line)) mounts.push_back(std::move(*mount));
  return mounts;
}

std::vector<fs::path> bounding_groups(const HostPaths& paths, const std::vector<CgroupMount>& mounts,
                                      std::string_view controller) {
  const CgroupMount* mount = mount_for(mounts, controller);
  if (mount == nullptr) return {};
  const fs::path top = at(paths, mount->mount_point.string());
  std::vector<fs::path> groups;
  fs::path group = directory_of(paths, *mount, own_group(paths, mount->unified ? "" : controller));
  for (; group != top && group.has_relative_path(); group = group.parent_path()) groups.push_back(group);
  groups.push_back(top);
  return groups;
}

std::optional<Bytes> smallest_limit(const std::vector<fs::path>& groups, LimitFile file) {
  std::optional<Bytes> smallest;
  for (const auto& group : groups) {
    std::string text = text_of(group / file.v2);
    if (text.empty()) text = text_of(group / file.v1);
    const auto value = number(text);
    if (value && *value < k_unlimited && (!smallest || *value < smallest->count)) smallest = Bytes{*value};
  }
  return smallest;
}

Cgroups survey_cgroups(const HostPaths& paths, const std::vector<CgroupMount>& mounts) {
  Cgroups result;
  result.mode = mode_of(mounts);
  if (result.mode == CgroupMode::v2) survey_unified(paths, mounts, result);
  if (result.mode == CgroupMode::v1 || result.mode == CgroupMode::hybrid) survey_legacy(paths, mounts, result);
  return result;
}

}  // namespace startrail::machine
