// run_contained, Container's own calls, and commands without isolation.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include "base/files.hpp"
#include "sandbox/container_fixture.hpp"
#include "sandbox/control_group.hpp"

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
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto line = base::read_file(entry.path() / "cmdline");
    if (line && line->starts_with("sleep")) {
      EXPECT_EQ(line->find(mark), std::string::npos);
    }
  }
  EXPECT_TRUE(base::remove_tree(folder));
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
