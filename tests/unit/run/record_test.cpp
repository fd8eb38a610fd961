#include "run/record.hpp"

#include <gtest/gtest.h>

#include "run/temporary_folder.hpp"

namespace startrail::run {
namespace {

RunSpec full_spec() {
  return {.id = "calm-otter-0001",
          .command = {"python", "train.py", "--name", "a b\nü"},
          .workspace = "/home/ada/my project",
          .workspace_place = sandbox::Place{.device = 65024, .inode = 7, .owner = 1000},
          .image_id = "sha256:abc",
          .lock_digest = "d1",
          .lock_toml = "lock-version = \"1.0\"\n",
          .snapshot = "s1",
          .engine = "local",
          .isolation = "rootless",
          .limits = {.memory = Bytes{512U << 20U}, .cpus = 1.5, .pids = 100, .shm_size = Bytes{64U << 20U}},
          .network = sandbox::Network::none,
          .extra_mounts = {{"/data", "/data", sandbox::Access::read_only, sandbox::Ownership::as_it_is},
                           {"/out", "/out", sandbox::Access::read_write, sandbox::Ownership::caller}},
          .environment = {{"SEED", "1"}, {"EMPTY", ""}},
          .gpus = {0, 3},
          .gpus_requested_all = false,
          .stop_grace_seconds = 5,
          .rerun_of = "warm-lark-0002"};
}

TEST(RunSpec, every_member_survives_json) {
  const Json json = to_json(full_spec());
  const RunSpec back = run_spec_from_json(base::parse_json(base::to_pretty_text(json), "spec").value()).value();
  EXPECT_EQ(to_json(back), json);
  EXPECT_EQ(back.command, full_spec().command);
  EXPECT_EQ(back.limits.memory, full_spec().limits.memory);
  EXPECT_EQ(back.workspace_place, full_spec().workspace_place);
  EXPECT_EQ(back.network, sandbox::Network::none);
  EXPECT_EQ(back.gpus, (std::vector<int>{0, 3}));
  ASSERT_EQ(back.extra_mounts.size(), 2U);
  EXPECT_EQ(back.extra_mounts[1].ownership, sandbox::Ownership::caller);
}

TEST(RunSpec, one_that_lacks_its_command_is_corrupt) {
  Json json = to_json(full_spec());
  json["command"] = Json::array();
  const auto read = run_spec_from_json(json);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::corrupt);
  EXPECT_FALSE(run_spec_from_json(Json("text")));
}

Status full_status() {
  const auto time = base::parse_time("2026-11-30T13:45:12.123Z").value();
  return {.state = State::failed,
          .supervisor = {.boot_id = "b",
                         .pid = 12,
                         .start_ticks = 345,
                         .place = {.machine = "0123", .host = "node-17", .pid_namespace = 4026531836}},
          .started = time,
          .running = time,
          .ended = time,
          .exit_code = 3,
          .signal = 11,
          .cause = "signal 11 in python",
          .peak_memory = Bytes{123},
          .remarks = {"GPU 0 still held by pid 4711 (python)"},
          .error = base::error(ErrorCode::not_found, "no image").with_context("read from x").with_hint("build it")};
}

TEST(Status, every_member_survives_json) {
  const Status back = status_from_json(to_json(full_status())).value();
  EXPECT_EQ(to_json(back), to_json(full_status()));
  EXPECT_EQ(back.supervisor, full_status().supervisor);
  EXPECT_EQ(back.error->code, ErrorCode::not_found);
  EXPECT_EQ(back.error->hints, (std::vector<std::string>{"build it"}));
}

TEST(Status, what_is_not_known_is_null) {
  const Json json = to_json(Status{});
  for (const char* key : {"supervisor", "started", "ended", "exit_code", "signal", "cause", "peak_memory", "error"})
    EXPECT_TRUE(json.at(key).is_null()) << key;
  EXPECT_EQ(to_json(status_from_json(json).value()), json);
}

TEST(Status, an_unknown_state_is_corrupt) {
  EXPECT_EQ(status_from_json({{"state", "asleep"}}).error().code, ErrorCode::corrupt);
  EXPECT_EQ(status_from_json({{"state", "running"}, {"started", "yesterday"}}).has_value(), false);
}

TEST(StatusFile, a_state_that_may_not_follow_is_refused_and_not_written) {
  TemporaryFolder folder;
  const fs::path run = folder / "runs/calm-otter-0001";
  write_test_file(run / k_state_file, base::to_pretty_text(to_json(full_status())));
  const auto written = write_status(run, Status{.state = State::running});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::conflict);
  EXPECT_EQ(written.error().message, "run calm-otter-0001 is failed; it can't become running");
  EXPECT_EQ(read_status(run)->state, State::failed);
}

TEST(StatusFile, a_damaged_file_is_an_error_that_names_it) {
  TemporaryFolder folder;
  write_test_file(folder / k_state_file, "{\"state\": \"runn");
  const auto status = read_status(folder.path());
  ASSERT_FALSE(status);
  EXPECT_NE(base::to_text(status.error()).find((folder / k_state_file).string()), std::string::npos);
}

TEST(StopRequest, says_who_asked_and_how) {
  TemporaryFolder folder;
  EXPECT_FALSE(read_stop_request(folder.path()));
  ASSERT_TRUE(write_stop_request(folder.path(), {.how = StopHow::at_once, .by = "ada", .at = base::now()}));
  const auto request = read_stop_request(folder.path());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->how, StopHow::at_once);
  EXPECT_EQ(request->by, "ada");
}

}  // namespace
}  // namespace startrail::run
