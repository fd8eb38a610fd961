#include "supervise/gpu_release.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "run/temporary_folder.hpp"

namespace startrail::supervise {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GpuRelease : public testing::Test {
 protected:
  GpuRelease() {
    host.nvml_library = std::string(STARTRAIL_BUILD_DIR) + "/fakes/libnvidia-ml.so.1";
    ::setenv("STARTRAIL_FAKE_NVML", (folder / "scenario").c_str(), 1);
    mine = start("TRAIL_RUN_ID=calm-otter-0001");
    other = start("TRAIL_RUN_ID=warm-lark-0002");
  }
  ~GpuRelease() override {
    ::unsetenv("STARTRAIL_FAKE_NVML");
    for (const pid_t pid : {mine, other}) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  static pid_t start(const char* variable) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::execlp("env", "env", variable, "sleep", "1000", nullptr);
      ::_exit(1);
    }
    // Until `env` has become `sleep`: only then is the variable in its environment.
    for (int i = 0; i < 1000; ++i) {
      if (base::read_file(fmt::format("/proc/{}/comm", pid)).value_or("") == "sleep\n") break;
      ::usleep(2000);
    }
    return pid;
  }
  void play(const std::vector<std::pair<int, pid_t>>& processes) {
    std::string scenario = "driver 535.183.01\ngpu minor=0\ngpu minor=1\n";
    for (const auto& [gpu, pid] : processes) scenario += fmt::format("process gpu={} pid={} memory=1000\n", gpu, pid);
    write_test_file(folder / "scenario", scenario);
  }
  std::vector<std::string> after(const std::vector<machine::GpuProcess>& before = {}) {
    return holders_after(host, {0}, before, "calm-otter-0001", ::geteuid(), milliseconds(250));
  }

  TemporaryFolder folder;
  machine::HostPaths host;
  pid_t mine = 0, other = 0;
};

TEST_F(GpuRelease, a_process_of_the_run_that_still_holds_memory_is_named) {
  play({{0, mine}});
  EXPECT_THAT(after(), ElementsAre(fmt::format("GPU 0 still held by pid {} (sleep)", mine)));
}

TEST_F(GpuRelease, other_runs_other_gpus_and_those_before_are_nobodys_business) {
  play({{0, other}, {1, mine}});
  EXPECT_THAT(after(), IsEmpty());
  play({{0, mine}});
  EXPECT_THAT(after(gpu_holders(host, {0})), IsEmpty()) << "it was there before";
}

TEST_F(GpuRelease, memory_that_comes_back_within_the_patience_is_fine) {
  play({{0, mine}});
  const pid_t later = ::fork();
  if (later == 0) {
    ::usleep(120'000);
    play({});
    ::_exit(0);
  }
  EXPECT_THAT(holders_after(host, {0}, {}, "calm-otter-0001", ::geteuid(), milliseconds(5000)), IsEmpty());
  ::waitpid(later, nullptr, 0);
}

TEST_F(GpuRelease, a_holder_that_is_dead_already_counts_as_the_runs) {
  play({{0, 999'999'999}});
  EXPECT_THAT(after(), ElementsAre(HasSubstr("GPU 0 still held by pid 999999999")));
}

TEST_F(GpuRelease, a_run_without_gpus_looks_at_none) {
  play({{0, mine}});
  EXPECT_THAT(holders_after(host, {}, {}, "calm-otter-0001", ::geteuid(), milliseconds(0)), IsEmpty());
}

TEST_F(GpuRelease, an_ending_process_of_another_user_is_not_the_runs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  constexpr uid_t k_somebody = 65'534;
  // A zombie has no environment to be known by.
  const pid_t ending = ::fork();
  if (ending == 0) ::_exit(::setuid(k_somebody) == 0 ? 0 : 1);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(ending), &ended, WEXITED | WNOWAIT);
  ASSERT_EQ(ended.si_status, 0);
  play({{0, ending}});
  EXPECT_THAT(holders_after(host, {0}, {}, "calm-otter-0001", 0, milliseconds(0)), IsEmpty());
  EXPECT_THAT(holders_after(host, {0}, {}, "calm-otter-0001", k_somebody, milliseconds(0)),
              ElementsAre(HasSubstr(fmt::format("GPU 0 still held by pid {}", ending))));
  ::waitpid(ending, nullptr, 0);
}

}  // namespace
}  // namespace startrail::supervise
