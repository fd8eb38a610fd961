#include "supervise/supervise.hpp"

#include <gmock/gmock.h>
#include <sys/mount.h>

#include "supervise/supervised_run.hpp"

namespace startrail::supervise {
namespace {

using run::State;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST_F(SupervisedRun, a_command_that_succeeds_leaves_its_log_and_a_whole_record) {
  const auto status = run_to_end("echo out; echo err >&2");
  EXPECT_EQ(status.state, State::succeeded);
  EXPECT_EQ(status.exit_code, 0);
  EXPECT_EQ(status.cause, "");
  EXPECT_TRUE(status.started && status.running && status.ended);
  EXPECT_LE(*status.started, *status.running);
  run::LogReader reader(store.directory(id));
  std::string output, errors;
  for (const auto chunks = reader.next().value(); const auto& chunk : chunks)
    (chunk.stream == run::LogWriter::Stream::output ? output : errors) += chunk.data;
  EXPECT_EQ(output, "out\n");
  EXPECT_EQ(errors, "err\n");
  const Json whole = store.whole_record(id).value();
  EXPECT_THAT(whole.at("container").at("how").get<std::string>(), HasSubstr("not isolated"));
  EXPECT_EQ(store.list(run::RunStore::Which::all)->front().state, State::succeeded);
}

TEST_F(SupervisedRun, the_exit_code_is_the_commands_own) {
  const auto status = run_to_end("exit 3");
  EXPECT_EQ(status.state, State::failed);
  EXPECT_EQ(status.exit_code, 3);
  EXPECT_EQ(status.cause, "exit code 3");
}

TEST_F(SupervisedRun, a_signal_that_was_not_ours_is_a_failure_with_its_name) {
  const auto status = run_to_end("kill -SEGV $$");
  EXPECT_EQ(status.state, State::failed);
  EXPECT_EQ(status.signal, SIGSEGV);
  EXPECT_THAT(status.cause, StartsWith("signal 11 in sh"));
}

TEST_F(SupervisedRun, a_program_that_is_not_there_is_named) {
  start({"pyhton", "train.py"});
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::failed);
  EXPECT_EQ(status().exit_code, 127);
  EXPECT_EQ(status().cause, "command not found: pyhton");
}

TEST_F(SupervisedRun, a_python_traceback_gives_the_cause) {
  start({"python3", "-c", "import no_such_module"});
  wait_for_supervisor();
  EXPECT_EQ(status().cause, "ModuleNotFoundError: No module named 'no_such_module'");
}

TEST_F(SupervisedRun, the_command_runs_in_the_workspace_and_finds_its_places) {
  spec.environment = {{"SEED", "42"}};
  ::setenv("PYTHONPATH", "/of/the/host", 1);
  const auto status = run_to_end(
      "pwd; echo $TRAIL_RUN_ID $SEED; test -d $TRAIL_OUTPUT_DIR && touch $TRAIL_OUTPUT_DIR/model && test -d $TMPDIR && "
      "test -d $HOME && echo all there; echo \"path=$PYTHONPATH\"");
  ::unsetenv("PYTHONPATH");
  EXPECT_EQ(status.state, State::succeeded);
  EXPECT_EQ(log(), workspace.string() + "\n" + id + " 42\nall there\npath=\n");
  bool kept = false;
  for (const auto& entry : fs::recursive_directory_iterator(paths.volumes()))
    kept = kept || entry.path().string().ends_with("/runs/" + id + "/output/model");
  EXPECT_TRUE(kept) << "outputs outlive the run";
}

TEST_F(SupervisedRun, scratch_and_temp_go_with_the_run) {
  run_to_end("echo x > $TMPDIR/big; mkdir -p $TMPDIR/a/b; chmod 0 $TMPDIR/a");
  EXPECT_FALSE(fs::exists(store.directory(id) / run::k_temp_folder));
  EXPECT_FALSE(fs::exists(store.directory(id) / run::k_scratch_folder));
}

TEST_F(SupervisedRun, every_byte_of_a_large_output_is_kept) {
  const auto status = run_to_end("head -c 9000000 /dev/zero; printf end >&2");
  EXPECT_EQ(status.state, State::succeeded);
  EXPECT_EQ(fs::file_size(store.directory(id) / run::k_log_file), 9000003U);
}

TEST_F(SupervisedRun, a_graceful_stop_lets_the_command_say_goodbye) {
  start_shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done");
  wait_for_log("ready");
  ASSERT_TRUE(run::write_stop_request(store.directory(id), {.by = "ada", .at = base::now()}));
  ::kill(supervisor, SIGTERM);
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::stopped);
  EXPECT_EQ(status().exit_code, 0);
  EXPECT_EQ(status().cause, "stopped by ada");
  EXPECT_THAT(log(), HasSubstr("bye"));
}

TEST_F(SupervisedRun, a_command_that_ignores_the_stop_is_killed_after_its_grace) {
  spec.stop_grace_seconds = 1;
  start_shell("trap '' TERM; echo ready; while :; do sleep 0.02; done");
  wait_for_log("ready");
  const auto asked = std::chrono::steady_clock::now();
  ::kill(supervisor, SIGTERM);
  wait_for_supervisor();
  const auto took = std::chrono::steady_clock::now() - asked;
  EXPECT_GE(took, std::chrono::milliseconds(990));
  EXPECT_LT(took, std::chrono::seconds(5));
  EXPECT_EQ(status().state, State::stopped);
  EXPECT_EQ(status().cause, "stopped by a signal to its supervisor; it had to be killed after 1 s of grace");
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(SupervisedRun, a_second_signal_kills_at_once) {
  start_shell("trap '' TERM; echo ready; while :; do sleep 0.02; done");
  wait_for_log("ready");
  ::kill(supervisor, SIGTERM);
  for (int i = 0; i < 400 && status().state != State::ending; ++i) ::usleep(5000);
  EXPECT_EQ(status().state, State::ending);
  ::kill(supervisor, SIGTERM);
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::killed);
}

TEST_F(SupervisedRun, a_stop_that_comes_before_the_command_means_that_it_never_runs) {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, &before);
  start_shell("echo ran");
  // Still blocked in the child: it takes the signal when it first looks.
  ::kill(supervisor, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::stopped);
  EXPECT_EQ(status().cause, "stopped by a signal to its supervisor before it started");
  EXPECT_FALSE(status().running);
  EXPECT_EQ(log(), "");
}

TEST_F(SupervisedRun, killing_reaches_grandchildren_that_left_the_session) {
  start_shell("trap '' TERM; setsid sh -c 'trap \"\" TERM; (sleep 1000 & sleep 1000 & wait)' & echo ready; wait");
  wait_for_log("ready");
  EXPECT_GE(processes().size(), 2U);
  ::kill(supervisor, SIGINT);
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::killed);
  EXPECT_EQ(status().signal, SIGKILL);
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(SupervisedRun, what_an_ended_command_left_in_the_background_goes_with_it) {
  const auto status = run_to_end("sleep 1000 & setsid sleep 1000 & echo done");
  EXPECT_EQ(status.state, State::succeeded);
  EXPECT_EQ(log(), "done\n");
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(SupervisedRun, memory_over_the_limit_is_its_death_and_cause) {
  spec.limits.memory = Bytes{100U << 20U};
  start({"python3", "-c", "import time\nx = bytearray(b'x') * (300 << 20)\ntime.sleep(60)"});
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::killed);
  EXPECT_EQ(status().cause, "killed: memory limit 100 MiB reached");
}

TEST_F(SupervisedRun, memory_is_summed_over_all_of_its_processes) {
  spec.limits.memory = Bytes{100U << 20U};
  const std::string hog = "python3 -c \"import time; x = bytearray(b'x') * (60 << 20); time.sleep(60)\"";
  start_shell(hog + " & " + hog + " & wait");
  wait_for_supervisor();
  EXPECT_EQ(status().cause, "killed: memory limit 100 MiB reached");
  EXPECT_THAT(processes(), IsEmpty());
}

TEST_F(SupervisedRun, a_killed_supervisor_takes_the_command_with_it) {
  start_shell("echo ready; setsid sleep 1000 & sleep 1000");
  wait_for_log("ready");
  ::kill(supervisor, SIGKILL);
  wait_for_supervisor();
  EXPECT_TRUE(all_gone());
  const auto now = store.status(id).value();
  EXPECT_EQ(now.state, State::lost);
  EXPECT_THAT(now.cause, HasSubstr("was killed"));
  EXPECT_FALSE(fs::exists(store.directory(id) / run::k_temp_folder));
}

TEST_F(SupervisedRun, a_closed_terminal_changes_nothing) {
  start_shell("echo ready; sleep 0.3; echo still here");
  wait_for_log("ready");
  ::kill(supervisor, SIGHUP);
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::succeeded);
  EXPECT_THAT(log(), HasSubstr("still here"));
}

TEST_F(SupervisedRun, the_command_inherits_no_ignored_signals_and_no_descriptors) {
  const auto status = run_to_end("grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/self/fd | wc -l");
  EXPECT_EQ(status.state, State::succeeded);
  // ls itself has one more open: the folder.
  EXPECT_EQ(log(), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n4\n");
}

TEST_F(SupervisedRun, an_image_that_is_not_there_fails_before_the_start_with_its_hints_kept) {
  spec.isolation = "root";
  spec.image_id = "sha256:" + std::string(64, '0');
  const auto status = run_to_end("true");
  EXPECT_EQ(status.state, State::failed);
  EXPECT_EQ(status.exit_code, 125);
  ASSERT_TRUE(status.error);
  EXPECT_EQ(status.cause, status.error->message);
  EXPECT_FALSE(status.running);
}

TEST_F(SupervisedRun, a_workspace_that_is_gone_fails_before_the_start) {
  fs::remove_all(workspace);
  const auto status = run_to_end("true");
  EXPECT_EQ(status.exit_code, 125);
  EXPECT_THAT(status.cause, HasSubstr(workspace.string()));
}

TEST_F(SupervisedRun, a_run_that_has_ended_is_not_run_again) {
  run_to_end("echo once");
  supervisor = ::fork();
  if (supervisor == 0) ::_exit(supervise_main(store.directory(id)));
  EXPECT_NE(wait_for_supervisor(), 0);
  EXPECT_EQ(log(), "once\n");
  EXPECT_EQ(status().state, State::succeeded);
}

TEST_F(SupervisedRun, a_command_that_fills_the_disk_keeps_its_verdict) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a small filesystem of its own";
  const fs::path small = folder / "small";
  fs::create_directories(small);
  ASSERT_EQ(::mount("none", small.c_str(), "tmpfs", 0, "size=4m"), 0);
  paths = {small};
  store = run::RunStore::open(paths, {}).value();
  const auto status = run_to_end("cat /dev/zero > $TMPDIR/big; exit 3");
  const std::string words = base::read_file(store.directory(id) / run::k_supervisor_log_file).value_or("");
  store = run::RunStore::open({folder / "state"}, {}).value();
  ::umount2(small.c_str(), MNT_DETACH);
  EXPECT_EQ(status.state, State::failed) << words;
  EXPECT_EQ(status.exit_code, 3);
}

TEST_F(SupervisedRun, what_the_run_is_known_by_cannot_be_changed) {
  spec.environment = {{"TRAIL_RUN_ID", "another-run-0001"}, {"TRAIL_OUTPUT_DIR", "/elsewhere"}, {"SEED", "1"}};
  run_to_end("echo $TRAIL_RUN_ID $SEED; test $TRAIL_OUTPUT_DIR != /elsewhere && echo ours");
  EXPECT_EQ(log(), id + " 1\nours\n");
}

TEST_F(SupervisedRun, a_scratch_folder_that_is_to_be_kept_stays_and_temp_goes) {
  spec.scratch_after = sandbox::Scratch::kept;
  run_to_end("mkdir -p $TMPDIR/../scratch/upper && touch $TMPDIR/big");
  EXPECT_TRUE(fs::exists(store.directory(id) / run::k_scratch_folder / "upper"));
  EXPECT_FALSE(fs::exists(store.directory(id) / run::k_temp_folder));
}

TEST_F(SupervisedRun, memory_that_forked_processes_share_counts_once) {
  spec.limits.memory = Bytes{150U << 20U};
  start({"python3", "-c",
         "import os, time\nx = bytearray(b'x') * (80 << 20)\n"
         "for _ in range(3):\n  if os.fork() == 0: time.sleep(1.5); os._exit(0)\n"
         "for _ in range(3): os.wait()"});
  wait_for_supervisor();
  EXPECT_EQ(status().state, State::succeeded) << status().cause;
}

}  // namespace
}  // namespace startrail::supervise
