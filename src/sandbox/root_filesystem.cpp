#include "sandbox/root_filesystem.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/process.hpp"
#include "sandbox/linux/mount_calls.hpp"

namespace startrail::sandbox {
namespace {

using base::errno_error;
using base::Fd;

constexpr mode_t k_folder = 0755;

// Whatever symlinks lie on `path`, the answer is inside `root`.
Fd open_inside(const Fd& root, const std::string& path, unsigned flags) {
  open_how how{.flags = flags | O_CLOEXEC, .mode = 0, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
  return Fd(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
}

// The first layer that has the file decides, as in the overlay itself; missing everywhere, or no file, is empty.
std::string read_from_layers(const std::vector<Fd>& layers, const char* name) {
  constexpr Bytes k_most{4ULL << 20U};
  for (const auto& layer : layers) {
    const Fd file = open_inside(layer, name, O_PATH);
    struct stat status{};
    if (!file.valid()) continue;
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    return base::read_file(fmt::format("/proc/self/fd/{}", file.get()), k_most).value_or(std::string());
  }
  return {};
}

// A scratch folder may have been used before, by a command that could leave anything at this name: a link to the
// host, a pipe that never opens.
Result<void> write_file(const fs::path& file, std::string_view content) {
  if (::unlink(file.c_str()) != 0 && errno == EISDIR) TRY(base::remove_tree(file));
  const Fd fd = TRY(base::open_file(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
  ::fchmod(fd.get(), 0644);
  return base::write_all(fd.get(), content, file);
}

std::string host_file(const char* file) {
  return base::read_file(file).value_or(std::string());
}

std::string hosts_file(const ContainerSpec& spec) {
  std::string content = spec.network == Network::host ? host_file("/etc/hosts") : std::string();
  if (content.find("localhost") == std::string::npos)
    content += "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
  if (!content.ends_with('\n')) content += '\n';
  return content + "127.0.1.1 " + spec.hostname + "\n";
}

std::string home_of(const ContainerSpec& spec, const Identity& identity) {
  const auto home = spec.environment.find("HOME");
  return home != spec.environment.end() && home->second.starts_with('/') ? home->second : "/home/" + identity.user_name;
}

// A scratch folder may have been used before, by a command that could put a symlink to the host there.
Result<void> own_folder(const fs::path& folder) {
  struct stat status{};
  if (::lstat(folder.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) ::unlink(folder.c_str());
  return base::make_directories(folder, k_folder);
}

// A home that no mount brings must exist and belong to the user.
Result<void> make_home(const fs::path& top, const std::string& home, const Identity& identity) {
  if (!home.starts_with("/home/") || home.find("..") != std::string::npos) return {};
  fs::path folder = top;
  for (const auto& part : fs::path(home).relative_path()) {
    if (part.empty()) continue;  // after a slash at the end
    folder /= part;
    TRY(own_folder(folder));
  }
  ::chmod(folder.c_str(), 0700);
  // EINVAL: rootless, where the user's is the only uid there is, and it owns the folder already.
  if (::lchown(folder.c_str(), identity.uid, identity.gid) != 0 && errno != EINVAL)
    return fail(errno_error(fmt::format("cannot give {} to its user", folder.string()), errno));
  return {};
}

// True when the first layer that has `path` has a folder there, or none has it.
bool may_be_folder(const std::vector<Fd>& layers, const std::string& path) {
  struct stat status{};
  for (const auto& layer : layers) {
    const Fd found = open_inside(layer, path, O_PATH | O_NOFOLLOW);
    if (found.valid() && ::fstat(found.get(), &status) == 0) return S_ISDIR(status.st_mode);
  }
  return true;
}

// Makes `path` (relative) and its parents in the topmost layer, where they merge with the layers' folders of the
// same names. Without this the kernel would copy the layers' folders up when something is made in them, and it can't
// where their owner has no number in this user namespace (a rootless caller on root's store). Symlinks end the walk:
// what lies behind them is left to be made through the overlay.
Result<void> make_in_top(const fs::path& top, const std::vector<Fd>& layers, const std::string& path) {
  for (std::size_t end = path.find('/'); true; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (!may_be_folder(layers, part)) return {};
    TRY(own_folder(top / part));
    if (end == std::string::npos) return {};
  }
}

Result<void> make_mount_points(const fs::path& top, const std::vector<Fd>& layers, const ContainerSpec& spec) {
  for (const auto& mount : spec.mounts) {
    std::error_code none;
    fs::path path = fs::path(mount.target).lexically_normal().relative_path();
    if (!path.has_filename()) path = path.parent_path();
    if (!fs::is_directory(mount.source, none)) path = path.parent_path();
    if (!path.empty()) TRY(make_in_top(top, layers, path.string()));
  }
  for (const auto& file : spec.gpus.mounts)
    TRY(make_in_top(top, layers, fs::path(file.container_path).relative_path().parent_path().string()));
  return {};
}

Result<void> make_temporary_folders(const fs::path& top) {
  TRY(own_folder(top / "var"));
  for (const char* name : {"tmp", "var/tmp"}) {
    TRY(own_folder(top / name));
    if (::chmod((top / name).c_str(), 01777) != 0)
      return fail(errno_error(fmt::format("cannot open {} to all", (top / name).string()), errno));
  }
  return {};
}

bool has_file(const std::vector<Fd>& layers, const char* name) {
  return std::ranges::any_of(layers, [&](const Fd& layer) { return open_inside(layer, name, O_PATH).valid(); });
}

// bundle.cpp: Debian's number of the group for root's terminals; rootless, the only number that there is.
std::string group_file(const std::vector<Fd>& layers, Mode mode, const Identity& identity) {
  const std::string group = with_group(read_from_layers(layers, "etc/group"), identity);
  return mode == Mode::rootless ? with_terminal_group(group, identity.gid) : group;
}

// A login shell starts with Debian's PATH, which knows nothing of the image's environment. Whoever logs in by SSH to
// type wants to be where the work is.
Result<void> keep_path_of_login_shells(const fs::path& etc, const ContainerSpec& spec) {
  const auto path = spec.environment.find("PATH");
  if (path == spec.environment.end()) return {};
  TRY(own_folder(etc / "profile.d"));
  return write_file(etc / "profile.d/startrail.sh",
                    fmt::format("export PATH={}\ncase \"$-$SSH_TTY\" in *i*/dev/*) cd {};; esac\n",
                                base::shell_quote(path->second), base::shell_quote(spec.directory)));
}

// What the image's layers can't know: accounts, names, folders to write in, mount points. They are a layer of their
// own: seven small writes instead of seven bind mounts.
Result<void> fill_layer(const fs::path& top, const std::vector<Fd>& layers, const ContainerSpec& spec, Mode mode,
                        const Identity& identity) {
  const std::string home = home_of(spec, identity);
  const char* const shell = has_file(layers, "bin/bash") ? "/bin/bash" : "/bin/sh";
  const fs::path etc = top / "etc";
  TRY(own_folder(etc));
  TRY(write_file(etc / "passwd", with_user(read_from_layers(layers, "etc/passwd"), identity, home, shell)));
  TRY(write_file(etc / "group", group_file(layers, mode, identity)));
  TRY(keep_path_of_login_shells(etc, spec));
  TRY(write_file(etc / "hostname", spec.hostname + "\n"));
  TRY(write_file(etc / "hosts", hosts_file(spec)));
  TRY(write_file(etc / "resolv.conf", host_file("/etc/resolv.conf")));
  TRY(own_folder(top / ".trail"));
  TRY(write_file(top / ".trail/init", ""));
  TRY(make_temporary_folders(top));
  TRY(make_mount_points(top, layers, spec));
  return make_home(top, home, identity);
}

Result<std::vector<Fd>> open_layers(const std::vector<fs::path>& layers) {
  if (layers.empty()) return fail(ErrorCode::invalid_input, "a container needs at least one layer");
  std::vector<Fd> opened;
  for (const auto& layer : layers)
    opened.push_back(TRY_CONTEXT(base::open_file(layer, O_PATH | O_DIRECTORY), "while opening the image's layers"));
  return opened;
}

Result<Fd> layer_of_user(const Fd& layer, const fs::path& name, const fs::path& point, const Identity& identity) {
  struct stat status{};
  if (::fstat(layer.get(), &status) != 0) return fail(errno_error("cannot look at " + name.string(), errno));
  const Fd owners = TRY(user_namespace_with(
      {.file_uid = status.st_uid, .uid = identity.uid, .file_gid = status.st_gid, .gid = identity.gid}));
  const Fd tree = TRY(
      clone_tree(layer, name, {.access = Access::read_only, .with_submounts = false, .idmap_namespace = owners.get()}));
  // overlayfs takes only layers that are mounted somewhere in this namespace.
  TRY(base::make_directories(point, k_folder));
  const Fd target = TRY(base::open_file(point, O_PATH | O_DIRECTORY));
  TRY(attach_tree(tree, target, name.string()));
  return base::open_file(point, O_PATH | O_DIRECTORY);
}

// All or none: where one filesystem or kernel refuses (id-mapped layers of an overlay came with Linux 5.19), they stay
// root's.
Result<void> give_layers_to_user(std::vector<Fd>& layers, const ContainerSpec& spec, const Identity& identity) {
  std::vector<Fd> mapped;
  const fs::path points = scratch_paths(spec.scratch).bundle / "layers";
  for (std::size_t i = 0; i < layers.size(); ++i)
    mapped.push_back(TRY(layer_of_user(layers[i], spec.layers[i], points / std::to_string(i), identity)));
  layers = std::move(mapped);
  return {};
}

// Descriptors instead of paths: no length limit, no ':' or ',' to escape, and the host's paths stay out of the
// container's /proc/self/mountinfo.
std::string by_descriptor(const Fd& fd) {
  return fmt::format("/proc/self/fd/{}", fd.get());
}

Result<void> mount_layers(const std::vector<Fd>& layers, const ScratchPaths& paths, Scratch after, Mode mode) {
  const Fd upper = TRY(base::open_file(paths.upper, O_PATH | O_DIRECTORY));
  const Fd work = TRY(base::open_file(paths.work, O_PATH | O_DIRECTORY));
  std::string options = "lowerdir=";
  for (const auto& layer : layers) options += (&layer == layers.data() ? "" : ":") + by_descriptor(layer);
  options += ",upperdir=" + by_descriptor(upper) + ",workdir=" + by_descriptor(work);
  // overlayfs.rst, "Volatile mount": unmounting then doesn't sync the disk, which takes as long as others keep it busy
  // (174 ms seen); the kernel refuses to mount such a folder a second time. Linux 5.10.
  if (after == Scratch::discarded) options += ",volatile";
  // overlayfs.rst: without privileges over the host its own attributes must be "user." ones.
  if (mode == Mode::rootless) options += ",userxattr";
  return mount_overlay(paths.root, options);
}

Result<void> make_upper(const ScratchPaths& paths) {
  TRY(base::make_directories(paths.upper, k_folder));
  return base::make_directories(paths.work, 0700);
}

Result<void> make_entry(const Fd& root, const std::string& path, bool folder, const Identity& identity) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = path.substr(slash + 1);
  const Fd directory = open_inside(root, parent, O_PATH | O_DIRECTORY);
  if (!directory.valid()) return fail(errno_error(fmt::format("cannot open {} in the container", parent), errno));
  const bool made = folder ? ::mkdirat(directory.get(), name.c_str(), k_folder) == 0
                           : ::mknodat(directory.get(), name.c_str(), S_IFREG | 0644, 0) == 0;
  if (!made && errno != EEXIST)
    return fail(errno_error(fmt::format("cannot make the mount point {} in the container", path), errno));
  // Inside a mount of the user's a new mount point is the user's; rootless, it is so by itself.
  [[maybe_unused]] const int given =
      made ? ::fchownat(directory.get(), name.c_str(), identity.uid, identity.gid, AT_SYMLINK_NOFOLLOW) : 0;
  return {};
}

// The descriptor of the mount point, which is made, with its parents, when it is missing.
Result<Fd> mount_point(const Fd& root, const std::string& target, bool folder, const Identity& identity) {
  Fd found = open_inside(root, target, O_PATH);
  if (found.valid()) return found;
  for (std::size_t at = target.find('/', 1); at != std::string::npos; at = target.find('/', at + 1)) {
    const std::string parent = target.substr(0, at);
    if (!open_inside(root, parent, O_PATH).valid()) TRY(make_entry(root, parent, true, identity));
  }
  TRY(make_entry(root, target, folder, identity));
  found = open_inside(root, target, O_PATH);
  if (found.valid()) return found;
  return fail(errno_error(fmt::format("cannot open the mount point {} in the container", target), errno));
}

// Some filesystems can't hold an upper directory (another overlay, NFS): memory can, up to the memory limit. Returns
// the filesystem's root.
Result<Fd> mount_in_memory(const std::vector<Fd>& layers, const ContainerSpec& spec, Mode mode) {
  auto paths = scratch_paths(spec.scratch);
  const fs::path memory = spec.scratch / "memory";
  paths.upper = memory / "upper";
  paths.work = memory / "work";
  TRY(base::make_directories(memory, k_folder));
  // Without a size of its own it is half of the machine's memory (tmpfs(5)).
  const std::string size = spec.limits.memory ? fmt::format(",size={}", spec.limits.memory->count) : "";
  TRY(mount_tmpfs(memory, "mode=0755" + size));
  TRY(make_upper(paths));
  TRY(mount_layers(layers, paths, Scratch::discarded, mode));
  return base::open_file(memory, O_PATH | O_DIRECTORY);
}

Error cannot_keep(const fs::path& scratch, const Error& reason) {
  Error error = base::error(ErrorCode::unsupported,
                            fmt::format("the filesystem of {} can't keep a container's files", scratch.string()));
  error.with_context(reason.message);
  return error.with_hint("set STARTRAIL_HOME to a folder on a local disk (ext4, xfs, btrfs)");
}

bool is_folder(const Fd& fd) {
  struct stat status{};
  return ::fstat(fd.get(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

ScratchPaths scratch_paths(const fs::path& scratch) {
  const fs::path bundle = scratch / "bundle";
  return {.upper = scratch / "upper",
          .work = scratch / "work",
          .bundle = bundle,
          .layer = bundle / "layer",
          .root = bundle / "rootfs",
          .runtime = bundle / "runtime",
          .runtime_log = bundle / "runtime.log",
          .process_id_file = bundle / "pid"};
}

Result<void> check_target(const std::string& target) {
  const std::string normal = fs::path(target).lexically_normal().string();
  if (!target.starts_with('/') || normal == "/")
    return fail(ErrorCode::invalid_input, fmt::format("`{}` is not an absolute folder to mount on", target));
  for (const std::string_view kept : {"/proc", "/sys", "/dev", "/.trail"}) {
    if (normal == kept || normal.starts_with(std::string(kept) + "/"))
      return fail(ErrorCode::invalid_input,
                  fmt::format("nothing can be mounted on {}: it is the container's own", target));
  }
  return {};
}

Result<RootFilesystem> RootFilesystem::mount(const ContainerSpec& spec, Mode mode, const Identity& identity) {
  const auto paths = scratch_paths(spec.scratch);
  auto layers = TRY(open_layers(spec.layers));
  RootFilesystem result;
  TRY(base::make_directories(paths.root, k_folder));
  TRY(base::make_directories(paths.layer, k_folder));
  TRY(fill_layer(paths.layer, layers, spec, mode, identity));
  if (mode == Mode::root && spec.layer_owner == LayerOwner::container_user)
    if (const auto given = give_layers_to_user(layers, spec, identity); !given)
      result.m_notes.push_back("the image's files can't be replaced in here: " + given.error().message);
  layers.insert(layers.begin(), TRY(base::open_file(paths.layer, O_PATH | O_DIRECTORY)));
  TRY(make_upper(paths));
  if (const auto mounted = mount_layers(layers, paths, spec.scratch_after, mode); !mounted) {
    if (spec.scratch_after == Scratch::kept) return fail(cannot_keep(spec.scratch, mounted.error()));
    result.m_memory = TRY_CONTEXT(mount_in_memory(layers, spec, mode),
                                  "with a scratch folder in memory, after: " + mounted.error().message);
    result.m_notes.push_back(
        fmt::format("files written outside the volumes are kept in memory: the filesystem of {} can't hold them",
                    spec.scratch.string()));
  }
  result.m_root = TRY(base::open_file(paths.root, O_PATH | O_DIRECTORY));
  return result;
}

Result<void> RootFilesystem::attach(const Fd& tree, const std::string& target, const Identity& identity) const {
  const std::string normal = fs::path(target).lexically_normal().string();
  const Fd point = TRY(mount_point(m_root, normal.ends_with('/') ? normal.substr(0, normal.size() - 1) : normal,
                                   is_folder(tree), identity));
  if (is_folder(point) != is_folder(tree))
    return fail(ErrorCode::conflict,
                fmt::format("{} is a {} in the image; a {} can't be mounted on it", target,
                            is_folder(point) ? "folder" : "file", is_folder(tree) ? "folder" : "file"));
  return attach_tree(tree, point, target);
}

}  // namespace startrail::sandbox
