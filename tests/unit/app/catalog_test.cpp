#include "app/catalog.hpp"

#include <gmock/gmock.h>

#include "app/catalog_online.hpp"

namespace startrail::app {
namespace {

using testing::HasSubstr;

// ---- machines that are described ----

TEST(DescribedMachine, its_driver_and_gpus_take_the_place_of_the_real_ones) {
  machine::Machine here;
  here.driver = machine::Driver{.version = "580.65.06", .cuda = {}, .read_from = "NVML"};
  here.gpus.resize(2);
  const auto described = describe(here, {.driver = "535.183.01", .gpus = "sm_86,12.0"});
  ASSERT_TRUE(described);
  EXPECT_EQ(described->driver->version, "535.183.01");
  EXPECT_EQ(described->driver->read_from, "--driver");
  ASSERT_EQ(described->gpus.size(), 2U);
  EXPECT_EQ(described->gpus[0].architecture(), "sm_86");
  EXPECT_EQ(described->gpus[1].architecture(), "sm_120");
  EXPECT_EQ(described->gpus[1].index, 1);
}

TEST(DescribedMachine, another_driver_says_nothing_of_the_gpus_that_are_here) {
  machine::Machine here;
  here.gpus.resize(1);
  EXPECT_TRUE(describe(here, {.driver = "535.183", .gpus = {}})->gpus.empty());
  EXPECT_FALSE(describe(here, {.driver = "none", .gpus = {}})->driver);
}

TEST(DescribedMachine, what_is_no_version_or_architecture_is_a_wrong_usage) {
  for (const auto& described :
       {DescribedMachine{.driver = "new", .gpus = {}}, DescribedMachine{.driver = "535", .gpus = "volta"},
        DescribedMachine{.driver = "535", .gpus = "sm_86,"}, DescribedMachine{.driver = "535", .gpus = "8"},
        DescribedMachine{.driver = "none", .gpus = "sm_86"}}) {
    const auto result = describe({}, described);
    ASSERT_FALSE(result) << described.driver.value_or("") << " " << described.gpus.value_or("");
    EXPECT_EQ(result.error().code, ErrorCode::usage);
    EXPECT_FALSE(result.error().hints.empty());
  }
}

// ---- facts against the index ----

TEST(Comparison, versions_agree_as_far_as_both_go) {
  EXPECT_TRUE(agree("9.3", "9.3.0.75"));
  EXPECT_TRUE(agree("12", "12.4.127"));
  EXPECT_TRUE(agree("13.0", "13.0.96"));
  EXPECT_FALSE(agree("9.1", "9.10.2.21"));
  EXPECT_FALSE(agree("", "9.1"));
}

// ---- what a script reads ----

TEST(Chosen, a_refusal_is_a_part_of_the_answer) {
  Chosen chosen;
  chosen.refusal = base::error(ErrorCode::refused, "it can't").with_hint("do this");
  chosen.steps = {"looked"};
  const Json json = to_json(chosen);
  EXPECT_TRUE(json.at("combination").is_null());
  EXPECT_EQ(json.at("refusal").at("reason"), "it can't");
  EXPECT_EQ(json.at("steps").at(0), "looked");
  chosen.refusal.reset();
  chosen.choice = catalog::Choice{};
  EXPECT_TRUE(to_json(chosen).at("refusal").is_null());
}

}  // namespace
}  // namespace startrail::app
