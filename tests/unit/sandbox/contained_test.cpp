// run_contained, Container's own calls, and commands without isolation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "sandbox/container_fixture.hpp"
#include "sandbox/control_group.hpp"
#include "sandbox/init_program.hpp"

namespace startrail::sandbox::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The ways that this user's runs can go: these tests start containers from their own process.
std::vector<Way> own_ways() {
  const Mode mode = ::geteuid() == 0 ? Mode::root : Mode::rootless;
  return {{mode, "crun"}, {mode, "runc"}};
}

class OwnContainer : public ContainerTest {
 protected:
  void SetUp() override {
    ContainerTest::SetUp();
    ::setenv("STARTRAIL_PROGRAM", program("contain_program").c_str(), 1);
  }
};

// Container::start changes the process's namespaces: each test of it needs a process to lose. 0 is success.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool somebody_sleeps(const std::string& mark) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto line = base::read_file(entry.path() / "cmdline");
    if (line && line->starts_with("sleep") && line->find(mark) != std::string::npos) return true;
  }
  return false;
}

bool wait_for_file(const fs::path& file) {
  for (int i = 0; i < 1000 && !fs::exists(file); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return fs::exists(file);
}

TEST_P(OwnContainer, output_errors_and_exit_code_are_collected) {
  std::vector<std::string> lines;
  const auto result = run_contained(m_support, shell("echo out; echo one >&2; echo two >&2; exit 3"),
                                    [&](std::string_view line) { lines.emplace_back(line); });
  ASSERT_TRUE(result) << to_text(result.error());
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "out\n");
  EXPECT_THAT(lines, ElementsAre("one", "two"));
}

TEST_P(OwnContainer, a_signal_is_told_from_an_exit_code) {
  const auto result = run_contained(m_support, shell("kill -TERM $$"));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->signal, SIGTERM);
}

TEST_P(OwnContainer, a_missing_layer_is_an_error_that_names_it) {
  auto description = shell("true");
  description.layers = {"/no/such/layer"};
  const auto result = run_contained(m_support, description);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::not_found);
  EXPECT_THAT(result.error().message, HasSubstr("/no/such/layer"));
}

TEST_P(OwnContainer, a_missing_mount_source_is_an_error_that_names_it) {
  auto description = shell("true");
  description.mounts.push_back({.source = "/no/such/source", .target = "/mnt/x"});
  const auto result = run_contained(m_support, description);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::not_found);
  EXPECT_THAT(result.error().message, HasSubstr("/no/such/source"));
}

TEST_P(OwnContainer, mounts_over_the_containers_own_places_are_refused) {
  for (const char* target :
       {"/proc", "/proc/sys", "/dev/shm", "/sys", "/.trail/init", "/", "relative", "/workspace/../dev"}) {
    auto description = shell("true");
    description.mounts.push_back({.source = m_workspace, .target = target});
    const auto result = run_contained(m_support, description);
    ASSERT_FALSE(result) << target;
    EXPECT_EQ(result.error().code, ErrorCode::invalid_input) << target;
  }
}

TEST_P(OwnContainer, a_runtime_that_fails_is_quoted) {
  auto broken = m_support;
  broken.runtime = "/bin/false";
  const auto result = run_contained(broken, shell("true"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::unsupported);
  EXPECT_THAT(result.error().message, HasSubstr("could not start the container"));
}

TEST_P(OwnContainer, a_timeout_ends_everything_and_leaves_nothing) {
  const auto description = shell("sleep 1000");
  const auto result = run_contained(m_support, description, {}, std::chrono::milliseconds(1500));
  ASSERT_TRUE(result) << to_text(result.error());
  EXPECT_TRUE(result->timed_out);
  EXPECT_FALSE(ControlGroup::find(description.id));
}

TEST_P(OwnContainer, signals_reach_the_command) {
  const auto description = shell("trap 'exit 7' TERM; touch ready; while true; do sleep 0.05; done");
  const int result = in_child([&] {
    auto container = Container::start(m_support, description, {});
    if (!container) return 100;
    if (!wait_for_file(m_workspace / "ready")) return 101;
    if (!container->signal(SIGTERM)) return 102;
    const auto ended = container->wait();
    return ended ? ended->exit_code : 103;
  });
  EXPECT_EQ(result, 7);
}

TEST_P(OwnContainer, memory_and_processes_are_counted) {
  const auto description = spec({"python3", "-c",
                                 "import os, time\ndata = b'x' * (50 << 20)\nif os.fork() == 0: time.sleep(60)\n"
                                 "open('ready', 'w')\ntime.sleep(60)"});
  const int result = in_child([&] {
    auto container = Container::start(m_support, description, {});
    if (!container) return 100;
    if (!wait_for_file(m_workspace / "ready")) return 101;
    if (container->process_count() != 2) return 102;
    const auto memory = container->memory_now().count;
    // Two processes that share the same 50 MiB do not have 100.
    if (memory < (50U << 20U) || memory > (95U << 20U)) return 103;
    container->kill();
    const auto ended = container->wait();
    return ended && ended->signal == SIGKILL && ended->peak_memory ? 0 : 104;
  });
  EXPECT_EQ(result, 0);
}

TEST_P(OwnContainer, a_dropped_container_is_killed) {
  const auto description = shell("touch ready; sleep 1000");
  const int result = in_child([&] {
    pid_t init = 0;
    {
      auto container = Container::start(m_support, description, {});
      if (!container || !wait_for_file(m_workspace / "ready")) return 100;
      init = container->pid();
    }
    return ::kill(init, 0) != 0 && !ControlGroup::find(description.id) ? 0 : 101;
  });
  EXPECT_EQ(result, 0);
}

TEST_P(OwnContainer, output_without_end_takes_no_memory_without_end) {
  const auto result = run_contained(
      m_support,
      spec({"python3", "-c", "import sys\nfor _ in range(64): sys.stdout.write('x' * (1 << 20))\nprint('the end')"}));
  ASSERT_TRUE(result);
  EXPECT_LT(result->output.size(), 40U << 20U);
  EXPECT_THAT(result->output, ::testing::EndsWith("the end\n"));
}

TEST_P(OwnContainer, a_scratch_folder_can_be_used_again) {
  auto description = shell("echo kept > /var/tmp/state");
  ASSERT_TRUE(run_contained(m_support, description));
  description.argv = {"cat", "/var/tmp/state"};
  const auto again = run_contained(m_support, description);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->output, "kept\n");
}

TEST_P(OwnContainer, twenty_at_once_do_not_disturb_each_other) {
  std::vector<std::jthread> threads;
  std::vector<std::string> outputs(20);
  std::vector<ContainerSpec> descriptions;
  for (std::size_t i = 0; i < outputs.size(); ++i) descriptions.push_back(shell(fmt::format("echo {}", i)));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    threads.emplace_back([&, i] {
      const auto result = run_contained(m_support, descriptions[i]);
      outputs[i] = result ? result->output : to_text(result.error());
    });
  threads.clear();
  for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i], fmt::format("{}\n", i));
}

TEST_P(OwnContainer, whatever_an_earlier_command_left_in_the_scratch_folder_the_next_start_works) {
  auto description = shell("hostname; test -p /etc/hostname && echo pipe; ls /etc/hosts");
  description.environment["HOME"] = "/home/ada";
  const fs::path upper = description.scratch / "upper";
  const fs::path outside = m_folder / "outside";
  ASSERT_TRUE(base::make_directories(upper / "etc"));
  ASSERT_TRUE(base::make_directories(upper / "home"));
  ASSERT_TRUE(base::make_directories(outside, 0750));
  ASSERT_EQ(::mkfifo((upper / "etc/hostname").c_str(), 0666), 0);
  ASSERT_TRUE(base::make_directories(upper / "etc/hosts/folder"));
  fs::create_directory_symlink(outside, upper / "home/ada");
  const auto result = run_contained(m_support, description, {}, std::chrono::seconds(60));
  ASSERT_TRUE(result) << to_text(result.error());
  EXPECT_FALSE(result->timed_out) << "a pipe was opened";
  EXPECT_EQ(result->output, "startrail\npipe\nfolder\n");  // what was left is there, and in nobody's way
  struct stat status{};
  ASSERT_EQ(::stat(outside.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, ::geteuid());
  EXPECT_EQ(status.st_mode & 0777U, 0750U);
}

TEST_P(OwnContainer, root_follows_no_link_of_another_to_what_it_mounts) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root could be led astray";
  const fs::path users = m_folder / "users";
  ASSERT_TRUE(base::make_directories(users));
  const fs::path link = users / "project";
  fs::create_directory_symlink("/", link);
  auto description = shell("ls /mnt/place");
  description.mounts.push_back({.source = link, .target = "/mnt/place", .ownership = Ownership::caller});
  ASSERT_EQ(::lchown(link.c_str(), k_ordinary_uid, k_ordinary_uid), 0);
  for (const fs::path& source : {link, link / "etc"}) {
    description.mounts.back().source = source;
    const auto refused = run_contained(m_support, description);
    ASSERT_FALSE(refused) << source;
    EXPECT_EQ(refused.error().code, ErrorCode::permission);
    EXPECT_THAT(refused.error().message, HasSubstr(source.string()));
  }
  fs::remove(link);
  fs::create_directory_symlink(m_workspace, link);
  ASSERT_TRUE(base::write_file_atomic(m_workspace / "mark", ""));
  description.mounts.back().source = link;
  const auto followed = run_contained(m_support, description);
  ASSERT_TRUE(followed) << to_text(followed.error());
  EXPECT_EQ(followed->output, "mark\n") << "root's own links hold";
}

TEST_P(OwnContainer, a_folder_that_is_another_than_the_one_asked_for_is_not_mounted) {
  if (::geteuid() != 0) GTEST_SKIP() << "rootless, the caller's own rights are the bound";
  auto description = shell("true");
  description.mounts.front().expected = place_of(m_workspace).value();
  EXPECT_TRUE(run_contained(m_support, description));
  fs::rename(m_workspace, m_folder / "moved");
  ASSERT_TRUE(base::make_directories(m_workspace));
  const auto refused = run_contained(m_support, description);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::conflict);
  EXPECT_THAT(refused.error().message, HasSubstr(m_workspace.string()));
}

// From here on the kernel refuses this call to the process and all that it starts, as a security module may.
bool refuse(long call) {
  std::vector<sock_filter> code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

TEST_P(OwnContainer, a_restriction_that_the_kernel_refuses_is_an_error_and_not_the_commands_end) {
  if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1U) < 6) GTEST_SKIP() << "no restriction here can be refused";
  const auto description = shell("touch started");
  const int result = in_child([&] {
    if (!refuse(SYS_landlock_restrict_self)) return 100;
    auto container = Container::start(m_support, description, {});
    if (!container) return 101;
    const auto ended = container->wait();
    if (ended) return 102;
    return ended.error().code == ErrorCode::unsupported && !ended.error().hints.empty() &&
                   ended.error().message.find("scope of sockets") != std::string::npos
               ? 0
               : 103;
  });
  EXPECT_EQ(result, 0);
  EXPECT_FALSE(fs::exists(m_workspace / "started"));
}

TEST_P(OwnContainer, a_start_that_fails_after_init_runs_leaves_no_process_and_does_not_hang) {
  const std::string mark = fmt::format("5432{}", ::getpid());
  const auto description = spec({"sleep", mark});
  const int result = in_child([&] {
    ::alarm(60);
    if (!refuse(SYS_pidfd_open)) return 100;
    const auto container = Container::start(m_support, description, {});
    return container ? 101 : 0;
  });
  EXPECT_EQ(result, 0);
  EXPECT_FALSE(ControlGroup::find(description.id));
  EXPECT_FALSE(somebody_sleeps(mark));
}

INSTANTIATE_TEST_SUITE_P(each, OwnContainer, ::testing::ValuesIn(own_ways()),
                         [](const auto& way) { return way.param.runtime; });

TEST(WithoutIsolation, the_end_is_as_exact_and_nothing_is_left_behind) {
  const fs::path folder = *base::make_temporary_directory(fs::temp_directory_path(), "startrail-plain");
  const std::string mark = fmt::format("6543{}", ::getpid());
  const ContainerSpec description{
      .id = "plain",
      .scratch = folder / "scratch",
      .argv = {"bash", "-c", fmt::format("(setsid sleep {} &) ; sleep 0.2; pwd > place; kill -SEGV $$", mark)},
      .environment = {{"PATH", "/usr/bin:/bin"}},
      .directory = folder.string()};
  const int result = in_child([&] {
    auto container = Container::start({.mode = Mode::none}, description, {});
    if (!container) return 100;
    const auto ended = container->wait();
    return ended ? ended->signal : 101;
  });
  EXPECT_EQ(result, SIGSEGV);
  EXPECT_EQ(*base::read_file(folder / "place"), fs::canonical(folder).string() + "\n");
  EXPECT_FALSE(somebody_sleeps(mark));
  EXPECT_TRUE(base::remove_tree(folder));
}

class PlainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    m_folder = *base::make_temporary_directory(fs::temp_directory_path(), "startrail-plain");
    ASSERT_EQ(::chmod(m_folder.c_str(), 0777), 0);
  }
  void TearDown() override { EXPECT_TRUE(base::remove_tree(m_folder)); }
  [[nodiscard]] ContainerSpec shell(const std::string& script) const {
    return {.id = "plain",
            .scratch = m_folder / "scratch",
            .argv = {"bash", "-c", script},
            .environment = {{"PATH", "/usr/bin:/bin"}},
            .directory = m_folder.string()};
  }
  fs::path m_folder;
};

TEST_F(PlainCommand, roots_command_has_roots_rights) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root has rights to keep";
  ASSERT_TRUE(base::make_directories(m_folder / "anothers", 0700));
  ASSERT_EQ(::chown((m_folder / "anothers").c_str(), k_ordinary_uid, k_ordinary_uid), 0);
  const auto description = shell("touch anothers/made && chown 7 anothers/made");
  const int result = in_child([&] {
    auto container = Container::start({.mode = Mode::none}, description, {});
    if (!container) return 100;
    const auto ended = container->wait();
    return ended ? ended->exit_code : 101;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(PlainCommand, a_limit_on_processes_does_not_count_the_callers_others) {
  auto description = shell("true");
  description.limits.pids = 3;
  const auto request = start_request({.mode = Mode::none}, description, {});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->process_limit, 0U);
  const auto rootless = start_request({.mode = Mode::rootless}, description, {});
  ASSERT_TRUE(rootless);
  EXPECT_EQ(rootless->process_limit, 3U);
}

// As sudo's children are: of another uid through and through.
TEST_F(PlainCommand, what_it_left_and_may_not_be_killed_is_named_and_not_waited_for) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a setuid program";
  const fs::path changer = m_folder / "setpriv";
  fs::copy_file("/usr/bin/setpriv", changer);
  ASSERT_EQ(::chmod(changer.c_str(), 04755), 0);
  const auto description =
      shell("(./setpriv --reuid=0 sh -c 'echo $$ > pid; exec sleep 1000' &); until [ -s pid ]; do sleep 0.01; done");
  const int result = in_child([&] {
    ::alarm(60);
    if (::setgid(k_ordinary_uid) != 0 || ::setuid(k_ordinary_uid) != 0) return 100;
    auto container = Container::start({.mode = Mode::none}, description, {});
    if (!container) return 101;
    const auto ended = container->wait();
    if (!ended || ended->exit_code != 0) return 102;
    const auto pid = base::read_file(m_folder / "pid");
    return pid && ended->survivors == std::vector<pid_t>{std::atoi(pid->c_str())} ? 0 : 103;
  });
  EXPECT_EQ(result, 0);
  const auto pid = base::read_file(m_folder / "pid");
  ASSERT_TRUE(pid);
  EXPECT_EQ(::kill(std::atoi(pid->c_str()), SIGKILL), 0);
}

TEST(ContainerIds, names_that_would_be_paths_are_refused) {
  for (const char* id : {"", "..", "a/b", "../x", "a b"}) {
    const auto started = Container::start({.mode = Mode::none}, {.id = id, .scratch = "/tmp", .argv = {"true"}}, {});
    ASSERT_FALSE(started) << id;
    EXPECT_EQ(started.error().code, ErrorCode::invalid_input);
  }
}

}  // namespace
}  // namespace startrail::sandbox::testing
