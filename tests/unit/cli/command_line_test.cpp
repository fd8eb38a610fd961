#include "cli/command_line.hpp"

#include <gtest/gtest.h>

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "run", .arguments = "[OPTIONS] -- COMMAND", .summary = "Run.", .examples = ""};

struct RunLine {
  bool detach = false;
  std::optional<std::string> memory;
  std::vector<std::string> environment, command;
  Result<CommandLine::Parsed> parse(const std::vector<std::string>& words) {
    CommandLine line(k_manual);
    line.flag("-d,--detach", detach, "");
    line.value("--memory", memory, "SIZE", "");
    line.values("-e,--env", environment, "K=V", "");
    line.command(command);
    return line.parse(words);
  }
};

using Words = std::vector<std::string>;

TEST(CommandLine, everything_after_two_dashes_is_the_command_as_it_is) {
  RunLine run;
  ASSERT_TRUE(run.parse({"-d", "--", "python", "train.py", "--memory", "x", "--", "-d"}));
  EXPECT_TRUE(run.detach);
  EXPECT_FALSE(run.memory);
  EXPECT_EQ(run.command, (Words{"python", "train.py", "--memory", "x", "--", "-d"}));
}

TEST(CommandLine, the_first_word_that_is_no_option_begins_the_command) {
  RunLine run;
  ASSERT_TRUE(run.parse({"--memory", "1GiB", "--env", "A=1", "python", "-d", "--help"}));
  EXPECT_EQ(run.memory, "1GiB");
  EXPECT_FALSE(run.detach);
  EXPECT_EQ(run.command, (Words{"python", "-d", "--help"}));
}

TEST(CommandLine, values_come_after_a_space_an_equals_sign_or_a_short_name) {
  RunLine run;
  ASSERT_TRUE(run.parse({"--memory=1GiB", "-eA=1", "-e", "B=-2", "true"}));
  EXPECT_EQ(run.memory, "1GiB");
  EXPECT_EQ(run.environment, (Words{"A=1", "B=-2"}));
  EXPECT_EQ(run.command, (Words{"true"}));
}

TEST(CommandLine, the_last_of_a_repeated_value_counts_and_lists_keep_all) {
  RunLine run;
  ASSERT_TRUE(run.parse({"--memory", "1", "--memory", "2", "--env", "A=1", "--env", "B=2", "--", "true"}));
  EXPECT_EQ(run.memory, "2");
  EXPECT_EQ(run.environment.size(), 2U);
}

TEST(CommandLine, an_unknown_option_is_named_with_its_nearest_relative) {
  RunLine run;
  const auto parsed = run.parse({"--memroy", "1GiB", "--", "true"});
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::usage);
  EXPECT_NE(parsed.error().message.find("--memroy"), std::string::npos);
  EXPECT_EQ(parsed.error().hints.at(0), "did you mean `--memory`?");
}

TEST(CommandLine, a_missing_value_is_a_usage_error) {
  RunLine run;
  const auto parsed = run.parse({"--memory"});
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("--memory"), std::string::npos);
}

TEST(CommandLine, help_is_wanted_only_before_the_command) {
  RunLine run;
  EXPECT_EQ(run.parse({"-d", "--help"}), CommandLine::Parsed::help_wanted);
  EXPECT_EQ(run.parse({"--", "python", "--help"}), CommandLine::Parsed::ready);
}

TEST(CommandLine, values_that_look_like_other_syntax_are_taken_as_written) {
  RunLine run;
  ASSERT_TRUE(run.parse({"--env", "A=[1,2]", "--env", "B=x,y", "--env", "C=\"q\"", "--", "true"}));
  EXPECT_EQ(run.environment, (Words{"A=[1,2]", "B=x,y", "C=\"q\""}));
}

TEST(Nearest, finds_typos_and_beginnings_but_not_strangers) {
  const Words names{"run", "lock", "rerun", "inspect", "image"};
  EXPECT_EQ(nearest("rnu", names), "run");
  EXPECT_EQ(nearest("insp", names), "inspect");
  EXPECT_EQ(nearest("frobnicate", names), std::nullopt);
  EXPECT_EQ(nearest("x", names), std::nullopt);
  EXPECT_EQ(nearest("up", names), std::nullopt);
}

}  // namespace
}  // namespace startrail::cli
