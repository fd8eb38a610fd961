#include "run/store.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "run/log.hpp"
#include "run/temporary_folder.hpp"

namespace startrail::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;

class Store : public testing::Test {
 protected:
  RunStore open() {
    return RunStore::open(paths, [this](std::string_view text) { repairs.emplace_back(text); }).value();
  }
  std::string create(RunStore& store, std::vector<std::string> command = {"python", "train.py"}) {
    Circumstances circumstances{.created = time_of_next};
    time_of_next += std::chrono::seconds(1);
    return store
        .create({.command = std::move(command), .workspace = "/home/ada/code", .isolation = "none"}, circumstances)
        .value();
  }
  // Lives until it is killed.
  static pid_t start_sleeper() {
    const pid_t pid = ::fork();
    if (pid == 0)
      for (;;) ::pause();
    return pid;
  }
  static void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  static Status running_under(pid_t pid) {
    return {.state = State::running, .supervisor = base::process_identity(pid).value()};
  }
  void write_state(const RunStore& store, const std::string& id, const Status& status) {
    write_test_file(store.directory(id) / k_state_file, base::to_pretty_text(to_json(status)));
  }
  std::vector<std::string> ids(RunStore& store, RunStore::Which which = RunStore::Which::all) {
    std::vector<std::string> result;
    const auto runs = store.list(which).value();
    for (const auto& run : runs) result.push_back(run.id);
    return result;
  }

  TemporaryFolder folder;
  base::StatePaths paths{folder / "state"};
  std::vector<std::string> repairs;
  base::Time time_of_next = base::now();
};

TEST_F(Store, a_new_run_has_a_readable_name_and_all_its_files) {
  RunStore store = open();
  const std::string id = create(store);
  EXPECT_THAT(id, MatchesRegex("[a-z]+-[a-z]+-[0-9a-f]{4}"));
  EXPECT_EQ(store.spec(id)->command, (std::vector<std::string>{"python", "train.py"}));
  EXPECT_EQ(store.spec(id)->id, id);
  EXPECT_EQ(store.status(id)->state, State::queued);
  EXPECT_TRUE(fs::exists(store.directory(id) / k_record_file));
}

TEST_F(Store, many_runs_made_at_once_have_names_of_their_own) {
  open();
  for (int process = 0; process < 4; ++process)
    if (::fork() == 0) {
      auto store = open();
      for (int i = 0; i < 25; ++i) create(store);
      ::_exit(0);
    }
  for (int process = 0; process < 4; ++process) {
    int status = -1;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  RunStore store = open();
  EXPECT_THAT(ids(store), SizeIs(100));
}

TEST_F(Store, runs_are_listed_newest_first_and_live_ones_alone_when_asked) {
  RunStore store = open();
  const std::string first = create(store);
  const std::string second = create(store, {"sh", "-c", "echo a b"});
  ASSERT_TRUE(
      store.set_status(first, {.state = State::failed, .ended = base::now(), .exit_code = 3, .cause = "exit code 3"}));
  EXPECT_THAT(ids(store), ElementsAre(second, first));
  EXPECT_THAT(ids(store, RunStore::Which::live), ElementsAre(second));
  const auto runs = store.list(RunStore::Which::all).value();
  EXPECT_EQ(runs[0].command, "sh -c 'echo a b'");
  EXPECT_EQ(runs[1].state, State::failed);
  EXPECT_EQ(runs[1].exit_code, 3);
  EXPECT_EQ(runs[1].cause, "exit code 3");
}

TEST_F(Store, a_state_written_without_the_database_is_listed_and_learnt) {
  RunStore store = open();
  const std::string id = create(store);
  write_state(store, id, {.state = State::succeeded, .ended = base::now(), .exit_code = 0});
  EXPECT_EQ(store.list(RunStore::Which::all)->front().state, State::succeeded);
}

TEST_F(Store, a_run_is_found_by_its_name_a_unique_beginning_or_latest) {
  RunStore store = open();
  for (const char* id : {"calm-otter-0001", "calm-otter-0002", "warm-lark-0003"}) {
    const std::string made = create(store);
    fs::rename(store.directory(made), store.directory(id));
  }
  EXPECT_EQ(store.find("calm-otter-0002").value(), "calm-otter-0002");
  EXPECT_EQ(store.find("warm").value(), "warm-lark-0003");
  EXPECT_EQ(store.find("latest").value(), "warm-lark-0003");
  const auto ambiguous = store.find("calm");
  ASSERT_FALSE(ambiguous);
  EXPECT_EQ(ambiguous.error().code, ErrorCode::invalid_input);
  EXPECT_THAT(base::to_text(ambiguous.error()), HasSubstr("calm-otter-0001, calm-otter-0002"));
  const auto mistyped = store.find("wram-lark-0003");
  ASSERT_FALSE(mistyped);
  EXPECT_EQ(mistyped.error().code, ErrorCode::not_found);
  EXPECT_THAT(base::to_text(mistyped.error()), HasSubstr("did you mean warm-lark-0003?"));
  for (const char* wrong : {"", "..", "../x", ".", "/"}) EXPECT_FALSE(store.find(wrong)) << wrong;
}

TEST_F(Store, without_runs_the_latest_is_not_found_and_says_how_to_start_one) {
  RunStore store = open();
  const auto found = store.find("latest");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::not_found);
  EXPECT_THAT(base::to_text(found.error()), HasSubstr("trail run"));
}

TEST_F(Store, a_corrupt_database_is_set_aside_and_rebuilt_from_the_folders) {
  std::string first, second;
  {
    RunStore store = open();
    first = create(store);
    second = create(store);
    ASSERT_TRUE(store.set_status(first, {.state = State::failed, .exit_code = 3}));
  }
  fs::remove(paths.database().string() + "-wal");
  write_test_file(paths.database(), std::string(100000, 'x'));
  RunStore store = open();
  ASSERT_THAT(repairs, SizeIs(1));
  EXPECT_THAT(repairs[0], HasSubstr("rebuilt from 2 run folders"));
  EXPECT_THAT(ids(store), ElementsAre(second, first));
  EXPECT_EQ(store.list(RunStore::Which::all)->back().exit_code, 3);
  bool kept = false;
  for (const auto& entry : fs::directory_iterator(paths.root))
    kept = kept || entry.path().filename().string().starts_with("state.db.corrupt-");
  EXPECT_TRUE(kept);
  open();
  EXPECT_THAT(repairs, SizeIs(1)) << "once repaired, it is whole";
}

TEST_F(Store, damage_behind_a_good_header_is_repaired_too) {
  {
    RunStore store = open();
    for (int i = 0; i < 300; ++i) create(store);
  }
  // The log is folded into the main file, so that the damage is where the rows are.
  ASSERT_TRUE(base::run_process({.argv = {"python3", "-c",
                                          "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]);"
                                          "c.execute('PRAGMA wal_checkpoint(TRUNCATE)'); c.close()",
                                          paths.database().string()}})
                  ->succeeded());
  std::string bytes = base::read_file(paths.database()).value();
  ASSERT_GT(bytes.size(), 16384U);
  for (std::size_t i = 8192; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  write_test_file(paths.database(), bytes);
  RunStore store = open();
  EXPECT_THAT(ids(store), SizeIs(300));
  EXPECT_THAT(repairs, SizeIs(1));
}

TEST_F(Store, a_deleted_database_is_rebuilt_and_a_deleted_folder_forgotten) {
  {
    RunStore store = open();
    create(store);
    create(store);
  }
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(paths.database().string() + suffix);
  RunStore store = open();
  auto all = ids(store);
  ASSERT_THAT(all, SizeIs(2));
  fs::remove_all(store.directory(all[0]));
  EXPECT_THAT(ids(store), ElementsAre(all[1]));
}

TEST_F(Store, a_run_folder_that_cannot_be_read_does_not_break_the_list) {
  RunStore store = open();
  const std::string good = create(store);
  const std::string damaged = create(store);
  write_test_file(store.directory(damaged) / k_state_file, "{");
  fs::create_directories(paths.runs() / "half-made-0001");
  write_test_file(paths.runs() / "stray file", "x");
  EXPECT_THAT(ids(store), testing::Contains(good));
  EXPECT_FALSE(store.status(damaged));
  EXPECT_FALSE(store.spec("half-made-0001"));
}

TEST_F(Store, a_run_whose_supervisor_lives_stays_as_it_is) {
  RunStore store = open();
  const std::string id = create(store);
  const pid_t supervisor = start_sleeper();
  write_state(store, id, running_under(supervisor));
  EXPECT_EQ(store.status(id)->state, State::running);
  end(supervisor);
}

TEST_F(Store, a_run_whose_supervisor_was_killed_is_lost_and_cleaned_up) {
  RunStore store = open();
  const std::string id = create(store);
  const pid_t supervisor = start_sleeper();
  write_state(store, id, running_under(supervisor));
  write_test_file(store.directory(id) / k_temp_folder / "big", "x");
  write_test_file(store.directory(id) / k_scratch_folder / "upper/x", "x");
  end(supervisor);
  const Status status = store.status(id).value();
  EXPECT_EQ(status.state, State::lost);
  EXPECT_EQ(status.cause, "its supervisor (pid " + std::to_string(supervisor) + ") was killed");
  EXPECT_TRUE(status.ended);
  EXPECT_EQ(read_status(store.directory(id))->state, State::lost);
  EXPECT_FALSE(fs::exists(store.directory(id) / k_temp_folder));
  EXPECT_FALSE(fs::exists(store.directory(id) / k_scratch_folder));
  EXPECT_EQ(store.list(RunStore::Which::all)->front().cause, status.cause);
}

TEST_F(Store, what_a_supervisor_left_after_the_final_state_is_removed_once_it_is_dead) {
  RunStore store = open();
  const std::string id = create(store);
  const pid_t supervisor = start_sleeper();
  Status status = running_under(supervisor);
  status.state = State::succeeded;
  write_state(store, id, status);
  write_test_file(store.directory(id) / k_temp_folder / "big", "x");
  EXPECT_EQ(store.status(id)->state, State::succeeded);
  EXPECT_TRUE(fs::exists(store.directory(id) / k_temp_folder)) << "it is still at it";
  end(supervisor);
  EXPECT_EQ(store.status(id)->state, State::succeeded);
  EXPECT_FALSE(fs::exists(store.directory(id) / k_temp_folder));
}

TEST_F(Store, a_restart_of_the_machine_is_named) {
  RunStore store = open();
  const std::string id = create(store);
  Status status = running_under(::getpid());
  status.supervisor.boot_id = "another boot";
  write_state(store, id, status);
  EXPECT_EQ(store.list(RunStore::Which::all)->front().state, State::lost);
  EXPECT_EQ(store.status(id)->cause, "the machine was restarted (boot id changed)");
}

TEST_F(Store, a_later_process_with_the_same_pid_is_not_taken_for_the_supervisor) {
  RunStore store = open();
  const std::string id = create(store);
  Status status = running_under(::getpid());
  status.supervisor.start_ticks -= 1;
  write_state(store, id, status);
  EXPECT_EQ(store.status(id)->state, State::lost);
}

TEST_F(Store, a_run_whose_submitter_died_before_its_start_is_lost) {
  open();
  const pid_t submitter = ::fork();
  if (submitter == 0) {
    auto store = open();
    create(store);
    ::_exit(0);
  }
  ::waitpid(submitter, nullptr, 0);
  RunStore store = open();
  const auto runs = store.list(RunStore::Which::all).value();
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0].state, State::lost);
  EXPECT_THAT(runs[0].cause, HasSubstr("its submitter (pid " + std::to_string(submitter) + ")"));
}

TEST_F(Store, a_process_that_outlived_its_supervisor_without_isolation_is_ended) {
  RunStore store = open();
  const std::string id = create(store);
  const pid_t stray = ::fork();
  if (stray == 0) {
    ::setenv("TRAIL_RUN_ID", id.c_str(), 1);
    ::execlp("sleep", "sleep", "1000", nullptr);
    ::_exit(1);
  }
  const pid_t supervisor = start_sleeper();
  write_state(store, id, running_under(supervisor));
  end(supervisor);
  ::usleep(50'000);  // until the exec
  EXPECT_EQ(store.status(id)->state, State::lost);
  int status = 0;
  EXPECT_EQ(::waitpid(stray, &status, WNOHANG), stray);
  EXPECT_TRUE(WIFSIGNALED(status));
  if (!WIFSIGNALED(status)) end(stray);
}

TEST_F(Store, the_whole_record_holds_every_part) {
  RunStore store = open();
  const std::string id = create(store);
  ASSERT_TRUE(LogWriter::open(store.directory(id))->append(LogWriter::Stream::output, "hello"));
  const Json whole = store.whole_record(id).value();
  EXPECT_EQ(whole.at("id"), id);
  EXPECT_EQ(whole.at("spec").at("command"), (Json{"python", "train.py"}));
  EXPECT_EQ(whole.at("status").at("state"), "queued");
  EXPECT_TRUE(whole.at("record").contains("created"));
  EXPECT_TRUE(whole.at("container").is_null());
  EXPECT_TRUE(whole.at("snapshot").is_null());
  EXPECT_EQ(whole.at("log").at("bytes"), 5);
}

TEST_F(Store, a_thousand_runs_are_listed_in_a_few_milliseconds) {
  RunStore store = open();
  const std::string first = create(store);
  ASSERT_TRUE(store.set_status(first, {.state = State::failed, .exit_code = 1}));
  for (int i = 1; i < 1000; ++i)
    fs::copy(store.directory(first), paths.runs() / ("calm-otter-" + std::to_string(i)), fs::copy_options::recursive);
  EXPECT_THAT(ids(store), SizeIs(1000)) << "learnt from their folders";
  const auto start = std::chrono::steady_clock::now();
  const auto count = RunStore::open(paths, {})->list(RunStore::Which::all)->size();
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(count, 1000U);
  std::printf("listed in %.2f ms\n", std::chrono::duration<double, std::milli>(took).count());
  EXPECT_LT(took, std::chrono::milliseconds(200)) << "even in a debug build on a busy machine";
}

TEST_F(Store, a_run_of_another_machine_or_container_that_shares_the_folder_is_left_alone) {
  RunStore store = open();
  const auto here = base::process_place();
  auto other_machine = here, other_host = here, other_namespace = here;
  other_machine.machine = "0123456789abcdef";
  other_host.host = "node-17";
  other_namespace.pid_namespace += 1;
  for (const auto& place : {other_machine, other_host, other_namespace})
    for (const State state : {State::running, State::succeeded}) {
      const std::string id = create(store);
      Status status = running_under(::getpid());
      status.state = state;
      status.supervisor.pid = 999'999'999;
      status.supervisor.place = place;
      if (place != other_namespace) status.supervisor.boot_id = "another boot";
      write_state(store, id, status);
      write_test_file(store.directory(id) / k_scratch_folder / "upper/x", "x");
      write_test_file(store.directory(id) / k_temp_folder / "big", "x");
      const std::string before = base::read_file(store.directory(id) / k_state_file).value();
      EXPECT_EQ(store.status(id)->state, state);
      EXPECT_EQ(store.list(RunStore::Which::all)->front().state, state);
      EXPECT_EQ(base::read_file(store.directory(id) / k_state_file).value(), before);
      EXPECT_TRUE(fs::exists(store.directory(id) / k_scratch_folder / "upper/x"));
      EXPECT_TRUE(fs::exists(store.directory(id) / k_temp_folder / "big"));
    }
}

TEST_F(Store, a_look_from_another_pid_namespace_changes_nothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may make a namespace without a user namespace";
  RunStore store = open();
  const std::string id = create(store);
  const pid_t supervisor = start_sleeper();
  write_state(store, id, running_under(supervisor));
  write_test_file(store.directory(id) / k_temp_folder / "big", "x");
  const pid_t between = ::fork();
  if (between == 0) {
    if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) ::_exit(9);
    const pid_t container = ::fork();
    if (container == 0) {
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
      if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) ::_exit(9);
      ::_exit(open().status(id)->state == State::running ? 0 : 1);
    }
    int status = -1;
    ::waitpid(container, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  int status = -1;
  ::waitpid(between, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(fs::exists(store.directory(id) / k_temp_folder / "big"));
  EXPECT_EQ(store.status(id)->state, State::running);
  end(supervisor);
}

TEST_F(Store, a_verdict_over_a_run_that_changed_hands_meanwhile_is_not_written) {
  RunStore store = open();
  const std::string id = create(store);
  const Status seen = read_status(store.directory(id)).value();
  Status taken_over = seen;
  taken_over.state = State::preparing;
  taken_over.supervisor.pid += 1;
  write_state(store, id, taken_over);
  Status lost = seen;
  lost.state = State::lost;
  const auto written = replace_status(store.directory(id), seen, lost);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::conflict);
  EXPECT_EQ(read_status(store.directory(id))->state, State::preparing);
  EXPECT_TRUE(replace_status(store.directory(id), taken_over, lost));
}

TEST_F(Store, the_owner_of_a_run_may_write_its_end_over_states_that_it_could_not_write) {
  RunStore store = open();
  const std::string id = create(store);
  Status status = running_under(::getpid());
  write_state(store, id, status);
  status.state = State::failed;
  Status by_another = status;
  by_another.supervisor.start_ticks += 1;
  EXPECT_EQ(store.set_status(id, by_another).error().code, ErrorCode::conflict);
  EXPECT_TRUE(store.set_status(id, status));
}

TEST_F(Store, a_second_supervisor_cannot_take_a_run_that_has_one) {
  RunStore store = open();
  const std::string id = create(store);
  Status status = running_under(::getpid());
  status.state = State::preparing;
  ASSERT_TRUE(store.set_status(id, status));
  status.supervisor.start_ticks += 1;
  EXPECT_EQ(store.set_status(id, status).error().code, ErrorCode::conflict);
}

TEST_F(Store, a_run_whose_record_is_damaged_is_listed_as_such) {
  RunStore store = open();
  const std::string torn = create(store);
  write_test_file(store.directory(torn) / k_state_file, "");
  fs::create_directories(paths.runs() / "half-made-0001");
  fs::create_directories(paths.runs() / "just-now-0002");
  const timespec old[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ::utimensat(AT_FDCWD, (paths.runs() / "half-made-0001").c_str(), old, 0);
  const auto runs = store.list(RunStore::Which::all).value();
  ASSERT_THAT(runs, SizeIs(2)) << "the one that is being made isn't there yet";
  for (const auto& run : runs) {
    EXPECT_EQ(run.state, State::lost) << run.id;
    EXPECT_THAT(run.cause, HasSubstr("its record is damaged")) << run.id;
  }
  EXPECT_EQ(runs[0].id, torn);
  EXPECT_THAT(ids(store, RunStore::Which::live), IsEmpty());
}

TEST_F(Store, what_can_never_be_removed_costs_no_time_whenever_somebody_looks) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a mount, which never goes with its folder";
  RunStore store = open();
  const std::string id = create(store);
  const pid_t supervisor = start_sleeper();
  Status status = running_under(supervisor);
  status.state = State::succeeded;
  write_state(store, id, status);
  end(supervisor);
  const fs::path stays = store.directory(id) / k_temp_folder / "mounted";
  fs::create_directories(stays);
  ASSERT_EQ(::mount("none", stays.c_str(), "tmpfs", 0, nullptr), 0);
  const auto look = [&] {
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(store.status(id)->state, State::succeeded);
    return std::chrono::steady_clock::now() - began;
  };
  EXPECT_LT(look(), std::chrono::milliseconds(300)) << "no retry could help";
  EXPECT_LT(look(), std::chrono::milliseconds(300));
  ::umount(stays.c_str());
  EXPECT_EQ(store.status(id)->state, State::succeeded);
  EXPECT_TRUE(fs::exists(stays)) << "not tried again so soon";
  fs::remove(store.directory(id) / ".leftovers-stay");
  EXPECT_EQ(store.status(id)->state, State::succeeded);
  EXPECT_FALSE(fs::exists(stays));
}

TEST_F(Store, a_scratch_folder_that_is_to_be_kept_outlives_a_lost_run) {
  RunStore store = open();
  const std::string id = store
                             .create({.command = {"true"},
                                      .workspace = "/home/ada/code",
                                      .isolation = "none",
                                      .scratch_after = sandbox::Scratch::kept},
                                     {.created = base::now()})
                             .value();
  EXPECT_EQ(store.spec(id)->scratch_after, sandbox::Scratch::kept);
  const pid_t supervisor = start_sleeper();
  write_state(store, id, running_under(supervisor));
  write_test_file(store.directory(id) / k_temp_folder / "big", "x");
  write_test_file(store.directory(id) / k_scratch_folder / "upper/x", "x");
  end(supervisor);
  EXPECT_EQ(store.status(id)->state, State::lost);
  EXPECT_FALSE(fs::exists(store.directory(id) / k_temp_folder));
  EXPECT_TRUE(fs::exists(store.directory(id) / k_scratch_folder / "upper/x"));
}

}  // namespace
}  // namespace startrail::run
