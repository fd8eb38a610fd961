#include "run/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
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

}  // namespace
}  // namespace startrail::run
