#include "project/version.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace startrail::project {
namespace {

Version version(std::string_view text) {
  return Version::parse(text).value();
}
bool contains(std::string_view specifier, std::string_view text) {
  return SpecifierSet::parse(specifier).value().contains(version(text));
}

TEST(Version, the_order_of_pep_440_holds_between_all_neighbours) {
  const std::vector<const char*> ascending{
      "0.9",          "1.0.dev1", "1.0a1.dev1", "1.0a1",   "1.0a1.post1", "1.0a2", "1.0b1",  "1.0rc1",
      "1.0rc1+cu118", "1.0rc2",   "1.0",        "1.0+abc", "1.0+abc.1",   "1.0+5", "1.0+10", "1.0.post1.dev2",
      "1.0.post1",    "1.0.1",    "1.1.dev1",   "1.10",    "2024.1.10",   "1!0.1"};
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i) {
    EXPECT_LT(version(ascending[i]), version(ascending[i + 1])) << ascending[i] << " " << ascending[i + 1];
    EXPECT_GT(version(ascending[i + 1]), version(ascending[i]));
  }
}

TEST(Version, spellings_of_one_version_are_equal_and_have_one_normal_form) {
  EXPECT_EQ(version("1.0-RC1").text(), "1.0rc1");
  EXPECT_EQ(version(" v1.0.preview_2 ").text(), "1.0rc2");
  EXPECT_EQ(version("1.0-3").text(), "1.0.post3");
  EXPECT_EQ(version("2.1.0+CU118_ab").text(), "2.1.0+cu118.ab");
  EXPECT_EQ(version("1.0"), version("1.0.0"));
  EXPECT_NE(version("1.0"), version("1.0+cpu"));
}

TEST(Version, what_is_not_a_version_is_refused) {
  for (const char* text :
       {"", "abc", "1..0", "1.0+", "1.0+a..b", "9b x", "1.0.*", "99999999999999999999999", "1.0-", "!1"})
    EXPECT_FALSE(Version::parse(text)) << text;
}

TEST(SpecifierSet, each_operator_matches_what_pep_440_says) {
  EXPECT_TRUE(contains("", "0.1"));
  EXPECT_TRUE(contains("==1.1", "1.1.0"));
  EXPECT_TRUE(contains("==1.1", "1.1+cu118"));
  EXPECT_FALSE(contains("==1.1+cu118", "1.1"));
  EXPECT_TRUE(contains("==1.1.*", "1.1.post1"));
  EXPECT_FALSE(contains("==1.1.*", "1.10"));
  EXPECT_TRUE(contains("!=1.1.*", "1.2"));
  EXPECT_TRUE(contains("~=2.2", "2.9"));
  EXPECT_FALSE(contains("~=2.2", "3.0"));
  EXPECT_FALSE(contains("~=2.2.0", "2.3"));
  EXPECT_TRUE(contains("~=0.1.1.post2209072238", "0.1.1.post2209072238"));
  EXPECT_FALSE(contains(">1.7", "1.7.post1"));
  EXPECT_FALSE(contains(">1.7", "1.7+cu118"));
  EXPECT_FALSE(contains("<3.8", "3.8rc1"));
  EXPECT_TRUE(contains("<=1.7", "1.7+cu118"));
  EXPECT_TRUE(contains(">= 1.0, <2", "1.5"));
  EXPECT_TRUE(contains("===1.0", "1.0"));
}

TEST(SpecifierSet, prereleases_match_only_when_a_clause_names_one) {
  EXPECT_FALSE(contains(">=1.0", "2.0rc1"));
  EXPECT_TRUE(contains(">=2.0rc1", "2.0rc2"));
  EXPECT_FALSE(contains("!=2.0rc1", "2.0rc2"));
}

TEST(SpecifierSet, a_series_is_admitted_when_one_of_its_releases_could_match) {
  const auto admits = [](std::string_view specifier, std::string_view series) {
    return SpecifierSet::parse(specifier).value().admits_series(series);
  };
  EXPECT_TRUE(admits(">=3.8", "3.11"));
  EXPECT_FALSE(admits(">=3.8,<3.11", "3.11"));
  EXPECT_TRUE(admits("==3.8.*", "3.8"));
  EXPECT_TRUE(admits("==2.6.0+cu124", "2.6"));
  EXPECT_TRUE(admits("==2.1.0rc1", "2.1"));
  EXPECT_FALSE(admits("==1.13.1", "1.12"));
  EXPECT_TRUE(admits("~=1.12.1", "1.12"));
  EXPECT_FALSE(admits("!=2.6.*", "2.6"));
}

TEST(SpecifierSet, a_broken_clause_names_its_rule_and_a_way_out) {
  const auto local = SpecifierSet::parse("~=1.12.1+cu113");
  ASSERT_FALSE(local);
  EXPECT_THAT(local.error().message, testing::HasSubstr("PEP 440 forbids a local version (+cu113) with ~="));
  EXPECT_THAT(local.error().hints, testing::ElementsAre("write ==1.12.1+cu113 or ~=1.12.1"));
  EXPECT_THAT(SpecifierSet::parse("=1.2").error().hints, testing::ElementsAre("write ==1.2"));
  EXPECT_THAT(SpecifierSet::parse(">=1.*").error().hints, testing::ElementsAre("write >=1"));
  EXPECT_THAT(SpecifierSet::parse("~=2").error().hints, testing::ElementsAre("write ==2.* or >=2"));
  EXPECT_THAT(SpecifierSet::parse(">=1.0 <2").error().message, testing::HasSubstr("separated by a comma"));
}

TEST(SpecifierSet, the_pin_of_an_exact_clause_can_be_asked_for) {
  EXPECT_EQ(SpecifierSet::parse(">=1,==2.0.1").value().pinned()->text(), "2.0.1");
  EXPECT_FALSE(SpecifierSet::parse("==2.0.*").value().pinned());
}

}  // namespace
}  // namespace startrail::project
