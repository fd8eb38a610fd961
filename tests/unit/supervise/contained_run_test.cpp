// Runs in a real container on a real image: a Debian base with an empty Python environment.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <optional>

#include "base/process.hpp"
#include "base/reporter.hpp"
#include "image/image.hpp"
#include "machine/machine.hpp"
#include "supervise/host_python.hpp"
#include "supervise/supervised_run.hpp"

namespace startrail::supervise {
namespace {

using run::State;
using testing::HasSubstr;

// Shared with the other suites that need a base; made on first use.
fs::path shared_store() {
  const auto given = base::environment_variable("STARTRAIL_TEST_HOME");
  return fs::path(given.value_or(std::string(STARTRAIL_BUILD_DIR) + "/test-home")) / "store";
}

Result<image::Image> make_image() {
  lock::Lock lock{.python = "3.11", .suite = "bookworm"};
  lock.base_recipe = image::base_recipe("bookworm", {}).digest;
  const auto machine = machine::survey({}, shared_store(), machine::Depth::quick);
  TRY(base::make_directories(shared_store()));
  base::SilentReporter silent;
  return image::ensure(lock, machine, {.store = shared_store(), .lock_directory = shared_store()}, silent);
}

class ContainedRun : public SupervisedRun {
 protected:
  void SetUp() override {
    static const auto s_image = make_image();
    if (!s_image) GTEST_SKIP() << "no image to run in: " << to_text(s_image.error());
    const auto machine = machine::survey({}, paths.root, machine::Depth::quick);
    if (const auto support = sandbox::probe(machine); !support) {
      GTEST_SKIP() << to_text(support.error());
    } else {
      kernel_limits = support->cgroup_limits;
    }
    fs::create_directory_symlink(shared_store(), paths.store());
    spec.isolation = ::geteuid() == 0 ? "root" : "rootless";
    spec.image_id = s_image->id;
  }
  // Mounts of ours that somebody else can see.
  bool leaves_a_mount() {
    return base::read_file("/proc/self/mountinfo")->find(folder.path().string()) != std::string::npos;
  }
  bool kernel_limits = false;
};

TEST_F(ContainedRun, sees_its_four_places_and_leaves_files_of_the_owners) {
  const auto status = run_to_end(
      "pwd; touch made; echo kept > $TRAIL_OUTPUT_DIR/x; echo t > $TMPDIR/t; ls -d /mnt/*; touch /mnt/datasets/x || "
      "echo read-only; id -u; echo ~; python3 --version; echo $TRAIL_IMAGE; echo to-stderr > /dev/stderr");
  EXPECT_EQ(status.state, State::succeeded) << status.cause << log();
  EXPECT_THAT(log(), HasSubstr("/workspace\n"));
  EXPECT_THAT(log(), HasSubstr("/mnt/datasets\n/mnt/personal\n/mnt/temp\n"));
  EXPECT_THAT(log(), HasSubstr("read-only\n"));
  EXPECT_THAT(log(), HasSubstr("/mnt/personal/home\nPython 3.11"));
  EXPECT_THAT(log(), HasSubstr(spec.image_id));
  EXPECT_THAT(log(), HasSubstr("to-stderr"));
  EXPECT_THAT(log(), testing::Not(HasSubstr("\n0\n"))) << "not root inside";
  struct stat made{};
  ASSERT_EQ(::stat((workspace / "made").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, ::geteuid());
  EXPECT_FALSE(fs::exists(store.directory(id) / run::k_scratch_folder));
  EXPECT_FALSE(fs::exists(store.directory(id) / run::k_temp_folder));
  EXPECT_EQ(base::read_file(store.directory(id) / run::k_supervisor_log_file).value(), "");
  EXPECT_FALSE(leaves_a_mount());
  EXPECT_FALSE(base::read_json_file(store.directory(id) / run::k_container_file)->at("how").get<std::string>().empty());
}

TEST_F(ContainedRun, ends_with_the_commands_own_code_or_signal) {
  EXPECT_EQ(run_to_end("exit 7").exit_code, 7);
  EXPECT_EQ(run_to_end("kill -ABRT $$").cause, "signal 6 in sh (it aborted itself)");
  start({"no-such-program"});
  wait_for_supervisor();
  EXPECT_EQ(status().cause, "command not found: no-such-program");
}

TEST_F(ContainedRun, stops_gracefully_and_at_once) {
  start_shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
  wait_for_log("ready");
  ::kill(supervisor, SIGTERM);
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::stopped);
  EXPECT_THAT(log(), HasSubstr("bye"));

  start_shell("trap '' TERM; setsid sleep 1000 & echo ready; while :; do sleep 0.02; done");
  wait_for_log("ready");
  ::kill(supervisor, SIGINT);
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::killed);
  EXPECT_TRUE(all_gone());
}

TEST_F(ContainedRun, dies_of_its_memory_limit_whoever_enforces_it) {
  spec.limits.memory = Bytes{128U << 20U};
  start({"python3", "-c", "import time\nx = bytearray(b'x') * (400 << 20)\ntime.sleep(60)"});
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::killed);
  EXPECT_EQ(status().cause, "killed: memory limit 128 MiB reached");
  EXPECT_THAT(base::read_json_file(store.directory(id) / run::k_container_file)->at("limits_by").get<std::string>(),
              HasSubstr(kernel_limits ? "control group" : "supervisor"));
}

TEST_F(ContainedRun, dies_with_its_supervisor_and_is_found_lost_without_a_trace) {
  start_shell("echo ready; setsid sleep 1000 & sleep 1000");
  wait_for_log("ready");
  ::kill(supervisor, SIGKILL);
  wait_for_supervisor();
  EXPECT_TRUE(all_gone());
  EXPECT_EQ(store.status(id)->state, State::lost);
  EXPECT_FALSE(fs::exists(store.directory(id) / run::k_scratch_folder));
  EXPECT_FALSE(leaves_a_mount());
}

TEST_F(ContainedRun, without_isolation_uses_the_images_packages) {
  spec.isolation = "none";
  start({"python", "-c", "import sys; print(sys.prefix); print(sys.version_info[:2]); print(sys.path[-1])"});
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::succeeded) << status().cause << log();
  EXPECT_THAT(log(), HasSubstr((store.directory(id) / "scratch/environment").string()));
  EXPECT_THAT(log(), HasSubstr("(3, 11)"));
  EXPECT_THAT(log(), HasSubstr("site-packages"));
}

TEST_F(ContainedRun, without_a_fitting_python_on_the_host_the_bases_own_is_used) {
  const auto image = image::open(paths.store(), spec.image_id).value();
  const auto python = make_host_python(image, folder / "with space", "").value();
  const auto ran = base::run_process(
      {.argv = {(python.programs / "python").string(), "-c",
                "import ssl, ctypes, subprocess, sys; print(sys.prefix, sys.base_prefix)\n"
                "print(subprocess.check_output([sys.executable, '-c', 'print(6 * 7)'], text=True))"}});
  ASSERT_TRUE(ran);
  EXPECT_TRUE(ran->succeeded()) << ran->errors;
  EXPECT_THAT(ran->output, HasSubstr((folder / "with space").string() + " "));
  EXPECT_THAT(ran->output, HasSubstr("/store/")) << "the base's standard library";
  EXPECT_THAT(ran->output, HasSubstr("42"));
}

}  // namespace
}  // namespace startrail::supervise
