#include "supervise/verdict.hpp"

#include <gtest/gtest.h>

namespace startrail::supervise {
namespace {

using run::State;

run::Status judged(const WatchResult& result, const std::optional<run::StopRequest>& request = {}) {
  run::Status status{.state = State::ending};
  const run::RunSpec spec{.command = {"python"}, .limits = {.memory = Bytes{512U << 20U}}, .stop_grace_seconds = 30};
  judge(status, result, spec, request, "");
  return status;
}

TEST(Verdict, a_stop_counts_whatever_the_exit_code) {
  EXPECT_EQ(judged({.ended = {.exit_code = 0}, .asked = Urgency::gracefully}).state, State::stopped);
  EXPECT_EQ(judged({.ended = {.exit_code = 1}, .asked = Urgency::gracefully}).state, State::stopped);
  EXPECT_EQ(judged({.ended = {.signal = 15}, .asked = Urgency::gracefully}).state, State::stopped);
  EXPECT_EQ(judged({.ended = {.signal = 9}, .asked = Urgency::at_once}).state, State::killed);
}

TEST(Verdict, the_one_who_asked_is_named) {
  const run::StopRequest request{.how = run::StopHow::at_once, .by = "ada"};
  EXPECT_EQ(judged({.ended = {.signal = 9}, .asked = Urgency::at_once}, request).cause, "killed by ada");
  EXPECT_EQ(judged({.ended = {.signal = 9}, .asked = Urgency::gracefully, .grace_ran_out = true}, request).cause,
            "stopped by ada; it had to be killed after 30 s of grace");
}

TEST(Verdict, a_signal_and_an_exit_code_exclude_each_other) {
  const auto status = judged({.ended = {.signal = 11}});
  EXPECT_EQ(status.state, State::failed);
  EXPECT_EQ(status.signal, 11);
  EXPECT_FALSE(status.exit_code);
}

TEST(Verdict, the_memory_limit_kills_only_when_the_command_itself_died_of_it) {
  EXPECT_EQ(judged({.ended = {.signal = 9, .out_of_memory = true}}).state, State::killed);
  EXPECT_EQ(judged({.ended = {.signal = 9, .out_of_memory = true}}).cause, "killed: memory limit 512 MiB reached");
  const auto survived = judged({.ended = {.exit_code = 0, .out_of_memory = true}});
  EXPECT_EQ(survived.state, State::succeeded);
  ASSERT_EQ(survived.remarks.size(), 1U);
}

TEST(Verdict, a_stop_during_which_memory_ran_out_is_the_memorys) {
  const auto status = judged(
      {.ended = {.signal = 9, .out_of_memory = true}, .asked = Urgency::gracefully, .memory_limit_reached = true});
  EXPECT_EQ(status.state, State::killed);
  EXPECT_EQ(status.cause, "killed: memory limit 512 MiB reached");
}

}  // namespace
}  // namespace startrail::supervise
