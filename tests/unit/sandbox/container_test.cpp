// What DESIGN promises about the inside of a container, each claim on a real one.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <thread>

#include "base/files.hpp"
#include "base/process.hpp"
#include "sandbox/container_fixture.hpp"
#include "sandbox/control_group.hpp"

namespace startrail::sandbox::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t k_mebibyte = 1ULL << 20U;

unsigned owner_of(const fs::path& file) {
  struct stat status{};
  EXPECT_EQ(::lstat(file.c_str(), &status), 0) << file;
  return status.st_uid;
}

TEST_P(ContainerTest, the_command_is_not_root_and_has_no_capability) {
  const auto outcome = run(shell("id -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status"));
  EXPECT_THAT(outcome.output, HasSubstr(fmt::format("{}\n", inner_uid())));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    EXPECT_THAT(outcome.output, HasSubstr(fmt::format("{}:\t0000000000000000", set)));
  EXPECT_THAT(outcome.output, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(outcome.output, HasSubstr("Seccomp:\t2"));
}

TEST_P(ContainerTest, a_setuid_program_gains_nothing) {
  const fs::path program = m_workspace / "whoami";
  fs::copy_file("/usr/bin/id", program);
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  const auto outcome = run(shell("./whoami -u; su -c 'echo became root' || echo refused"));
  EXPECT_THAT(outcome.output, HasSubstr(fmt::format("{}\n", inner_uid())));
  EXPECT_THAT(outcome.output, HasSubstr("refused"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("became root")));
}

// What is mounted where, as the inside has it: "PATH OPTIONS SUPER-OPTIONS" lines (proc_pid_mountinfo(5)).
constexpr const char* k_list_mounts = "awk '{print $5, $6, $NF}' /proc/self/mountinfo";

std::string mount_at(const std::string& list, const std::string& path) {
  const std::size_t at = ("\n" + list).find("\n" + path + " ");
  return at == std::string::npos ? "" : list.substr(at, list.find('\n', at) - at);
}

// Plain permissions would keep an ordinary user out as well: the mounts must.
TEST_P(ContainerTest, kernel_settings_are_mounted_read_only) {
  const auto outcome = run(shell(k_list_mounts));
  for (const char* path : {"/proc/sys", "/proc/irq", "/proc/bus", "/proc/sysrq-trigger", "/sys"}) {
    if (!fs::exists(path)) continue;
    EXPECT_THAT(mount_at(outcome.output, path), HasSubstr(std::string(path) + " ro,")) << outcome.output;
  }
  EXPECT_NE(run(shell("echo 1 > /proc/sys/kernel/domainname")).exit_code, 0);
}

TEST_P(ContainerTest, files_of_the_kernel_that_tell_about_the_host_are_masked) {
  const auto outcome = run(shell(k_list_mounts));
  for (const char* path : {"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts", "/sys/firmware"}) {
    if (!fs::exists(path)) continue;
    EXPECT_THAT(mount_at(outcome.output, path), Not(IsEmpty())) << path << "\n" << outcome.output;
    const auto content = run(shell(fmt::format("cat {0} 2>/dev/null || ls -A {0}", path)));
    EXPECT_THAT(content.output, IsEmpty()) << path;
  }
}

TEST_P(ContainerTest, control_groups_of_the_host_are_unseen) {
  const auto outcome =
      run(shell("cut -d: -f3- /proc/self/cgroup | sort -u; ls -A /sys/fs/cgroup | grep -x '.*[.]slice'"));
  EXPECT_EQ(outcome.output, "/");
  if (rootless()) {
    EXPECT_THAT(run(shell("ls -A /sys/fs/cgroup")).output, IsEmpty());
  }
}

// Landlock's scopes came with ABI 6 (Linux 6.12).
bool kernel_scopes_sockets() {
  return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1U) >= 6;
}

TEST_P(ContainerTest, abstract_sockets_of_the_host_cannot_be_reached_and_own_ones_can) {
  if (!kernel_scopes_sockets()) GTEST_SKIP() << "this kernel has no scope for abstract sockets";
  const std::string name = fmt::format("startrail-test-{}", ::getpid());
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path + 1, name.size());
  const base::Fd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(server.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(server.get(), 4), 0);
  // The namespace of these names is the host's, which other tests and runs use at the same time: the kernel picks one.
  const auto outcome = run(spec({"python3", "-c",
                                 "import socket, sys\nown = socket.socket(socket.AF_UNIX); own.bind(''); own.listen()\n"
                                 "for name in (own.getsockname(), b'\\0' + sys.argv[1].encode()):\n"
                                 "  try: socket.socket(socket.AF_UNIX).connect(name); print('reached')\n"
                                 "  except OSError as error: print(error.errno)",
                                 name}));
  EXPECT_EQ(outcome.output, "reached\n1") << outcome.errors;  // EPERM
}

TEST_P(ContainerTest, processes_and_files_of_the_host_are_unseen) {
  const auto outcome = run(shell(fmt::format("ls -d /proc/[0-9]* | wc -l; ls {} 2>&1; ls /dev", m_folder.string())));
  EXPECT_THAT(outcome.output, HasSubstr("No such file"));
  EXPECT_LT(std::stoi(outcome.output), 8);
  EXPECT_THAT(outcome.output, Not(HasSubstr("vda")));
  EXPECT_THAT(outcome.output, Not(HasSubstr("kmsg")));
}

TEST_P(ContainerTest, mounts_and_namespaces_cannot_be_made) {
  const auto outcome =
      run(shell("unshare --user --map-root-user true && echo namespace; mount -t tmpfs none /tmp && echo mount; "
                "python3 -c 'import os; os.fork()' && echo fork"));
  EXPECT_EQ(outcome.output, "fork");
}

TEST_P(ContainerTest, files_made_in_the_workspace_belong_to_the_caller) {
  const auto outcome = run(shell("touch made && mkdir folder && touch folder/inner && stat -c %u made"));
  EXPECT_EQ(outcome.output, std::to_string(inner_uid()));
  for (const char* name : {"made", "folder", "folder/inner"}) EXPECT_EQ(owner_of(m_workspace / name), owner());
}

TEST_P(ContainerTest, files_of_the_caller_can_be_read_and_changed) {
  const fs::path file = m_workspace / "private";
  ASSERT_TRUE(base::write_file_atomic(file, "before\n", 0600));
  ASSERT_EQ(::chown(file.c_str(), owner(), owner()), 0);
  const auto outcome = run(shell("cat private && echo after > private"));
  EXPECT_EQ(outcome.output, "before");
  EXPECT_EQ(*base::read_file(file), "after\n");
}

TEST_P(ContainerTest, the_user_has_an_account) {
  const auto outcome = run(spec({"python3", "-c",
                                 "import pwd, grp, os; print(pwd.getpwuid(os.getuid()).pw_uid, "
                                 "pwd.getpwnam('root').pw_uid, grp.getgrgid(os.getgid()).gr_name != '', "
                                 "os.access(pwd.getpwuid(os.getuid()).pw_dir, os.W_OK))"}));
  EXPECT_EQ(outcome.output, fmt::format("{} 0 True True", inner_uid())) << outcome.errors;
}

TEST_P(ContainerTest, temporary_folders_can_be_written_and_the_layers_stay_as_they_are) {
  const auto outcome = run(shell("touch /tmp/a /var/tmp/b && ls /tmp /var/tmp"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_FALSE(fs::exists(*test_base() / "tmp/a"));
  run(shell("rm -rf /usr/share/zoneinfo; echo changed > /etc/debian_version"));
  EXPECT_TRUE(fs::exists(*test_base() / "usr/share/zoneinfo/UTC"));
  EXPECT_NE(*base::read_file(*test_base() / "etc/debian_version"), "changed\n");
}

TEST_P(ContainerTest, nothing_of_the_callers_environment_is_inherited) {
  ::setenv("STARTRAIL_TEST_SECRET", "leaked", 1);
  auto description = spec({"env"});
  description.environment["GIVEN"] = "value with spaces";
  const auto outcome = run(description);
  EXPECT_THAT(outcome.output, HasSubstr("GIVEN=value with spaces"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("leaked")));
  EXPECT_THAT(outcome.output, Not(HasSubstr("PYTHON")));
}

TEST_P(ContainerTest, the_end_is_reported_exactly) {
  EXPECT_EQ(run(shell("exit 42")).exit_code, 42);
  const auto killed = run(shell("kill -SEGV $$"));
  EXPECT_EQ(killed.signal, SIGSEGV);
  const auto not_a_signal = run(shell("exit 139"));
  EXPECT_EQ(not_a_signal.signal, 0);
  EXPECT_EQ(not_a_signal.exit_code, 139);
}

TEST_P(ContainerTest, a_command_that_is_not_there_ends_as_in_a_shell) {
  const auto missing = run(spec({"no-such-command"}));
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_THAT(missing.errors, HasSubstr("cannot run no-such-command"));
  ASSERT_TRUE(base::write_file_atomic(m_workspace / "data", "x"));
  EXPECT_EQ(run(spec({"/workspace/data"})).exit_code, 126);
}

TEST_P(ContainerTest, a_fork_bomb_meets_its_limit) {
  auto bomb = spec(
      {"python3", "-c",
       "import os, time\nmade = 0\ntry:\n  while made < 500:\n    if os.fork() == 0: time.sleep(60)\n    made += 1\n"
       "except OSError as error: print(made, error.errno)"});
  bomb.limits.pids = 40;
  const auto outcome = run(bomb);
  ASSERT_THAT(outcome.output, HasSubstr(" 11"));  // EAGAIN
  EXPECT_LE(std::stoi(outcome.output), 40);
  EXPECT_GE(std::stoi(outcome.output), 30);
}

TEST_P(ContainerTest, a_memory_hog_dies_within_its_limit) {
  auto hog = spec({"python3", "-c", "data = []\nwhile True: data.append(bytearray(b'x' * (1 << 20)))"});
  hog.limits.memory = Bytes{64 * k_mebibyte};
  const auto outcome = run(hog, std::chrono::seconds(60));
  EXPECT_EQ(outcome.signal, SIGKILL);
  EXPECT_TRUE(outcome.out_of_memory);
}

// Nobody maps such a file, so no process has its pages.
TEST_P(ContainerTest, files_in_shared_memory_count_towards_the_memory_limit) {
  auto hog =
      spec({"python3", "-c",
            "import time\nfile = open('/dev/shm/data', 'wb')\nfor _ in range(200): file.write(b'x' * (1 << 20)); "
            "file.flush()\ntime.sleep(30)"});
  hog.limits.memory = Bytes{64 * k_mebibyte};
  hog.limits.shm_size = Bytes{256 * k_mebibyte};
  const auto outcome = run(hog, std::chrono::seconds(60));
  EXPECT_EQ(outcome.signal, SIGKILL);
  EXPECT_TRUE(outcome.out_of_memory);
}

TEST_P(ContainerTest, a_cpu_limit_holds) {
  auto limited = spec({"python3", "-c",
                       "import os, pathlib\nquota = pathlib.Path('/sys/fs/cgroup/cpu/cpu.cfs_quota_us')\n"
                       "v2 = pathlib.Path('/sys/fs/cgroup/cpu.max')\n"
                       "print(len(os.sched_getaffinity(0)), quota.read_text() if quota.exists() else "
                       "v2.read_text() if v2.exists() else '')"});
  limited.limits.cpus = 1;
  const auto outcome = run(limited);
  if (m_support.cgroup_limits) {
    EXPECT_THAT(outcome.output, HasSubstr("100000"));
  } else {
    EXPECT_EQ(outcome.output.substr(0, 2), "1 ");
  }
}

TEST_P(ContainerTest, shared_memory_has_the_size_asked_for) {
  auto description = shell("df --output=size -B1 /dev/shm | tail -1");
  description.limits.shm_size = Bytes{96 * k_mebibyte};
  EXPECT_EQ(std::stoull(run(description).output), 96 * k_mebibyte);
}

TEST_P(ContainerTest, without_network_there_is_no_route_but_a_loopback) {
  auto description = spec({"python3", "-c",
                           "import socket\nprint(len(open('/proc/net/route').readlines()))\n"
                           "server = socket.create_server(('127.0.0.1', 0))\n"
                           "socket.create_connection(server.getsockname()).close()\n"
                           "try: socket.create_connection(('192.0.2.1', 9), 2); print('reached')\n"
                           "except OSError as error: print(error.errno)"});
  description.network = Network::none;
  EXPECT_EQ(run(description).output, "1\n101");  // a header line only; ENETUNREACH
}

TEST_P(ContainerTest, a_read_only_mount_cannot_be_written) {
  const fs::path data = m_folder / "data";
  ASSERT_TRUE(base::make_directories(data, 0777));
  ASSERT_EQ(::chmod(data.c_str(), 0777), 0);
  ASSERT_TRUE(base::write_file_atomic(data / "sample", "seen"));
  auto description = shell("cat /mnt/datasets/sample; touch /mnt/datasets/new 2>&1");
  description.mounts.push_back(
      {.source = data, .target = "/mnt/datasets", .access = Access::read_only, .ownership = Ownership::as_it_is});
  const auto outcome = run(description);
  EXPECT_THAT(outcome.output, HasSubstr("seen"));
  EXPECT_THAT(outcome.output, HasSubstr("Read-only file system"));
}

TEST_P(ContainerTest, mount_points_are_made_where_the_image_has_none) {
  const fs::path data = m_folder / "data";
  ASSERT_TRUE(base::make_directories(data));
  ASSERT_TRUE(base::write_file_atomic(data / "sample", "seen"));
  auto description = shell("cat /srv/deep/place/sample /workspace/inner/sample /opt/file");
  description.mounts.push_back({.source = data, .target = "/srv/deep/place"});
  description.mounts.push_back({.source = data, .target = "/workspace/inner"});
  description.mounts.push_back({.source = data / "sample", .target = "/opt/file"});
  EXPECT_EQ(run(description).output, "seenseenseen");
}

TEST_P(ContainerTest, a_symlink_in_the_image_cannot_lead_a_mount_out_of_it) {
  const fs::path outside = m_folder / "outside";
  const fs::path layer = m_folder / "layer";
  // The same place exists on the host and in the image.
  for (const auto& folder : {outside, layer / outside.relative_path()}) ASSERT_TRUE(base::make_directories(folder));
  // A layer of the caller's own: in others' a rootless caller can make nothing.
  for (const auto& entry : fs::recursive_directory_iterator(layer))
    ASSERT_EQ(::chown(entry.path().c_str(), owner(), owner()), 0);
  fs::create_symlink(outside, layer / "door");
  fs::create_symlink("../../../../../../../.." + outside.string(), layer / "climbing");
  ASSERT_TRUE(base::write_file_atomic(m_workspace / "mark", ""));
  for (const char* link : {"/door", "/climbing"}) {
    auto description = shell(fmt::format("ls {}/place", link));
    description.layers.insert(description.layers.begin(), layer);
    description.mounts.push_back({.source = m_workspace, .target = fmt::format("{}/place", link)});
    EXPECT_THAT(run(description).output, HasSubstr("mark"));
    EXPECT_TRUE(fs::is_empty(outside));
  }
}

TEST_P(ContainerTest, account_files_that_are_links_in_the_image_do_not_read_the_hosts_files) {
  const fs::path layer = m_folder / "layer";
  const fs::path secret = m_folder / "secret";
  ASSERT_TRUE(base::make_directories(layer / "etc"));
  for (const auto& folder : {layer, layer / "etc"}) ASSERT_EQ(::chown(folder.c_str(), owner(), owner()), 0);
  ASSERT_TRUE(base::write_file_atomic(secret, "leaked:x:7:7::/:\n"));
  fs::create_symlink(secret, layer / "etc/passwd");
  fs::create_symlink("../../../../../../../.." + secret.string(), layer / "etc/group");
  auto description = shell("cat /etc/passwd /etc/group");
  description.layers.insert(description.layers.begin(), layer);
  const auto outcome = run(description);
  EXPECT_THAT(outcome.output, HasSubstr(fmt::format(":{}:", inner_uid())));
  EXPECT_THAT(outcome.output, Not(HasSubstr("leaked")));
}

TEST_P(ContainerTest, a_mount_over_the_certificates_gets_no_file_of_ours) {
  const fs::path own = m_folder / "certificates";
  ASSERT_TRUE(base::make_directories(own));
  ASSERT_EQ(::chown(own.c_str(), owner(), owner()), 0);
  for (const Access access : {Access::read_write, Access::read_only}) {
    auto description = shell("ls -A /etc/ssl/certs");
    description.mounts.push_back({.source = own, .target = "/etc/ssl/certs", .access = access});
    const auto outcome = run(description);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, IsEmpty());
  }
  EXPECT_TRUE(fs::is_empty(own)) << "a mount point was made in the user's folder";
}

// A device and a library of the host's play GPU and driver: the way into the container is the same.
TEST_P(ContainerTest, gpu_devices_and_driver_files_are_there_and_cannot_be_changed) {
  const fs::path library = m_folder / "libcuda.so.535.1";
  ASSERT_TRUE(base::write_file_atomic(library, "driver"));
  auto description = shell(
      "head -c 3 /dev/nvidia0 | od -An -tx1; cat /usr/lib/gpu/libcuda.so.1; echo; (echo x > /usr/lib/gpu/libcuda.so.1) "
      "2>&1;"
      "echo $LD_LIBRARY_PATH $NVIDIA_VISIBLE_DEVICES; ls /dev | grep -c nvidia");
  description.environment["LD_LIBRARY_PATH"] = "/own";
  description.gpus = {.devices = {{.path = "/dev/nvidia0", .host_path = "/dev/zero", .major = 1, .minor = 5}},
                      .mounts = {{.host_path = library, .container_path = "/usr/lib/gpu/libcuda.so.1"}},
                      .library_directories = {"/usr/lib/gpu"},
                      .environment = {{"NVIDIA_VISIBLE_DEVICES", "void"}}};
  const auto outcome = run(description);
  EXPECT_THAT(outcome.output, HasSubstr("00 00 00"));
  EXPECT_THAT(outcome.output, HasSubstr("driver\n"));
  EXPECT_THAT(outcome.output, HasSubstr("/usr/lib/gpu:/own void\n1"));
  EXPECT_EQ(*base::read_file(library), "driver");
}

// What only root's containers have: control groups, id maps.
class RootContainer : public ContainerTest {};

// The device cgroup forbids every device that is not listed, whatever its node's mode.
TEST_P(RootContainer, a_device_that_is_listed_can_be_opened_under_the_device_cgroup) {
  struct stat status{};
  if (::stat("/dev/net/tun", &status) != 0) GTEST_SKIP() << "this host has no /dev/net/tun";
  if (!m_support.cgroup_limits) GTEST_SKIP() << "no control groups can be made here";
  auto description = shell("exec 3<>/dev/nvidia0 && echo opened");
  description.gpus.devices = {{.path = "/dev/nvidia0", .host_path = "/dev/net/tun", .major = 10, .minor = 200}};
  const auto outcome = run(description);
  EXPECT_EQ(outcome.output, "opened") << outcome.errors;
}

TEST_P(ContainerTest, descriptors_of_the_caller_do_not_reach_the_command) {
  const auto outcome = run(spec({"python3", "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"}));
  EXPECT_EQ(outcome.output, "['0', '1', '2', '3']");  // 3: the listing itself
}

TEST_P(ContainerTest, init_cannot_be_traced_or_killed_from_inside) {
  const auto outcome =
      run(shell("kill -9 1; sleep 0.1; cat /proc/1/environ 2>&1; head -c 1 /proc/1/mem 2>&1; echo alive"));
  EXPECT_THAT(outcome.output, HasSubstr("Permission denied"));
  EXPECT_TRUE(outcome.output.ends_with("alive"));
}

// Whether any process on this host has `mark` in its command line.
bool somebody_runs(const std::string& mark) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto line = base::read_file(entry.path() / "cmdline");
    if (line && line->starts_with("sleep") && line->find(mark) != std::string::npos) return true;
  }
  return false;
}

template <class Condition>
bool within(std::chrono::milliseconds time, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

TEST_P(ContainerTest, processes_left_behind_end_with_the_command) {
  const std::string mark = fmt::format("7654{}", ::getpid());
  const auto outcome = run(shell(fmt::format("setsid sleep {} & sleep 0.2; pgrep -c sleep || ls /proc; exit 3", mark)));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_TRUE(within(std::chrono::seconds(5), [&] { return !somebody_runs(mark); }));
}

TEST_P(ContainerTest, a_killed_supervisor_leaves_no_process_and_no_mount) {
  const std::string mark = fmt::format("8765{}", ::getpid());
  const auto description = spec({"sleep", mark});
  auto words = command_for(description);
  const pid_t supervisor = ::fork();
  ASSERT_GE(supervisor, 0);
  if (supervisor == 0) {
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ASSERT_TRUE(within(std::chrono::seconds(20), [&] { return somebody_runs(mark); }));
  ASSERT_EQ(::kill(supervisor, SIGKILL), 0);
  ASSERT_EQ(::waitpid(supervisor, nullptr, 0), supervisor);
  EXPECT_TRUE(within(std::chrono::seconds(5), [&] { return !somebody_runs(mark); }));
  EXPECT_THAT(*base::read_file("/proc/self/mountinfo"), Not(HasSubstr(m_folder.string())));
  remove_leftovers(description.id, description.scratch);
  EXPECT_FALSE(ControlGroup::find(description.id));
  EXPECT_FALSE(fs::exists(description.scratch / "runtime"));
}

// Overlayfs can neither map owners nor hold an upper directory: mounted over the workspace, or over the scratch
// folder, in a mount namespace of the command's own.
std::vector<std::string> with_overlay_on(const fs::path& place, std::vector<std::string> command) {
  const fs::path parts = place.parent_path() / (place.filename().string() + "-parts");
  const std::string script = fmt::format(
      "mkdir {0} {0}/upper {0}/work && chown --reference={1} {0}/upper && mount -t overlay overlay -o "
      "lowerdir={1},upperdir={0}/upper,workdir={0}/work "
      "{1} "
      "&& exec \"$@\"",
      parts.string(), place.string());
  command.insert(command.begin(), {"unshare", "--mount", "sh", "-c", script, "sh"});
  return command;
}

base::ProcessResult run_command(std::vector<std::string> argv, base::Environment extra = {}) {
  auto environment = base::current_environment();
  extra.merge(environment);
  auto result = base::run_process({.argv = std::move(argv),
                                   .environment = std::move(extra),
                                   .directory = "/",
                                   .input = {},
                                   .timeout = std::nullopt,
                                   .on_error_line = {}});
  EXPECT_TRUE(result) << to_text(result.error());
  return result.value_or(base::ProcessResult{});
}

TEST_P(RootContainer, where_owners_cannot_be_mapped_the_folders_owner_runs) {
  ASSERT_EQ(::chown(m_workspace.c_str(), k_ordinary_uid, k_ordinary_uid), 0);
  const auto description = shell("id -u; touch made; stat -c %u made");
  const auto result = run_command(with_overlay_on(m_workspace, command_for(description)));
  EXPECT_EQ(result.output, fmt::format("{0}\n{0}\n", k_ordinary_uid)) << result.errors;
}

TEST_P(RootContainer, where_owners_cannot_be_mapped_roots_folder_is_refused) {
  const auto description = shell("id -u");
  const auto result = run_command(with_overlay_on(m_workspace, command_for(description)));
  EXPECT_EQ(result.exit_code, 125);
  const auto answer = base::read_file(description.scratch / "request.json.answer");
  ASSERT_TRUE(answer);
  EXPECT_THAT(*answer, HasSubstr("belongs to root"));
  EXPECT_THAT(*answer, HasSubstr("chown"));
}

TEST_P(RootContainer, where_owners_cannot_be_mapped_sudos_caller_runs) {
  const std::string id = std::to_string(k_ordinary_uid);
  const auto description = shell("id -u; id -g");
  const auto result =
      run_command(with_overlay_on(m_workspace, command_for(description)), {{"SUDO_UID", id}, {"SUDO_GID", id}});
  EXPECT_EQ(result.output, fmt::format("{0}\n{0}\n", k_ordinary_uid)) << result.errors;
}

TEST_P(RootContainer, a_scratch_folder_that_cannot_hold_an_overlay_is_replaced_by_memory_of_the_limits_size) {
  auto description = shell("echo written > /tmp/file && cat /tmp/file; df --output=size -B1 / | tail -1");
  description.scratch_after = Scratch::discarded;
  description.limits.memory = Bytes{96 * k_mebibyte};
  auto command = command_for(description);
  const auto result = run_command(with_overlay_on(description.scratch, std::move(command)));
  EXPECT_THAT(result.output, HasSubstr("written\n")) << result.errors;
  EXPECT_THAT(result.output, HasSubstr(std::to_string(96 * k_mebibyte)));
}

TEST_P(RootContainer, files_that_are_to_be_kept_are_never_put_into_memory) {
  const auto description = shell("true");
  auto command = command_for(description);
  const auto result = run_command(with_overlay_on(description.scratch, std::move(command)));
  EXPECT_EQ(result.exit_code, 125);
}

TEST_P(RootContainer, what_the_host_mounts_later_does_not_arrive_in_a_mount) {
  const fs::path shared = m_folder / "shared";
  ASSERT_TRUE(base::make_directories(shared));
  auto description = shell("grep ' /mnt/datasets ' /proc/self/mountinfo");
  description.mounts.push_back({.source = shared, .target = "/mnt/datasets", .access = Access::read_only});
  auto command = command_for(description);
  command.insert(
      command.begin(),
      {"unshare", "--mount", "sh", "-c",
       fmt::format("mount -t tmpfs none {0} && mount --make-shared {0} && exec \"$@\"", shared.string()), "sh"});
  const auto result = run_command(std::move(command));
  EXPECT_THAT(result.output, HasSubstr(" /mnt/datasets ")) << result.errors;
  EXPECT_THAT(result.output, Not(HasSubstr("master:")));
  EXPECT_THAT(result.output, Not(HasSubstr("shared:")));
}

INSTANTIATE_TEST_SUITE_P(each, RootContainer, ::testing::Values(Way{Mode::root, "crun"}, Way{Mode::root, "runc"}),
                         [](const auto& way) { return way.param.runtime; });
INSTANTIATE_TEST_SUITE_P(each, ContainerTest, ::testing::ValuesIn(all_ways()),
                         [](const auto& way) { return way.param.name(); });

}  // namespace
}  // namespace startrail::sandbox::testing
