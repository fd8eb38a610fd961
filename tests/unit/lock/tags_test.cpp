#include "lock/tags.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace startrail::lock {
namespace {

using testing::ElementsAre;

WheelName wheel(std::string_view filename) {
  auto name = parse_wheel_name(filename);
  EXPECT_TRUE(name.has_value()) << filename;
  return name.value_or(WheelName{});
}

TEST(Tags, a_wheel_name_is_split_into_its_parts) {
  const auto name = wheel("torch-2.6.0-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl");
  EXPECT_EQ(name.distribution, "torch");
  EXPECT_EQ(name.version, "2.6.0");
  EXPECT_EQ(name.build, "1");
  EXPECT_THAT(name.platforms, ElementsAre("manylinux_2_17_x86_64", "manylinux2014_x86_64"));
}

TEST(Tags, names_that_are_no_wheels_are_refused) {
  for (const char* name : {"torch-2.6.0.tar.gz", "torch.whl", "a-b-c-d-e-f-g.whl", "torch-1-x-cp311-cp311-any.whl", "",
                           ".whl", "--cp311-cp311-any.whl"})
    EXPECT_FALSE(parse_wheel_name(name).has_value()) << name;
}

TEST(Tags, a_wheel_for_a_newer_glibc_does_not_fit) {
  const auto tags = Tags::for_python("3.9", 31);
  EXPECT_TRUE(tags.rank(wheel("a-1-cp39-cp39-manylinux_2_28_x86_64.whl")).has_value());
  EXPECT_FALSE(tags.rank(wheel("a-1-cp39-cp39-manylinux_2_35_x86_64.whl")).has_value());
  EXPECT_FALSE(tags.rank(wheel("a-1-cp39-cp39-musllinux_1_1_x86_64.whl")).has_value());
  EXPECT_FALSE(tags.rank(wheel("a-1-cp39-cp39-manylinux_2_28_aarch64.whl")).has_value());
}

TEST(Tags, the_own_abi_is_better_than_abi3_and_that_better_than_pure) {
  const auto tags = Tags::for_python("3.11", 36);
  const auto own = tags.rank(wheel("a-1-cp311-cp311-manylinux2014_x86_64.whl"));
  const auto stable = tags.rank(wheel("a-1-cp38-abi3-manylinux2014_x86_64.whl"));
  const auto pure = tags.rank(wheel("a-1-py3-none-any.whl"));
  ASSERT_TRUE(own && stable && pure);
  EXPECT_LT(*own, *stable);
  EXPECT_LT(*stable, *pure);
}

TEST(Tags, abi3_of_a_newer_python_does_not_fit) {
  EXPECT_FALSE(Tags::for_python("3.9", 36).rank(wheel("a-1-cp310-abi3-manylinux2014_x86_64.whl")).has_value());
}

TEST(Tags, python_3_7_has_the_m_abi) {
  const auto tags = Tags::for_python("3.7", 31);
  EXPECT_TRUE(tags.rank(wheel("tensorflow-1.15.2-cp37-cp37m-manylinux2010_x86_64.whl")).has_value());
  EXPECT_FALSE(tags.rank(wheel("tensorflow-1.15.2-cp37-cp37-manylinux2010_x86_64.whl")).has_value());
}

TEST(Tags, the_pythons_of_a_wheel_are_listed) {
  EXPECT_THAT(pythons_of(wheel("a-1-cp38-cp38-manylinux2014_x86_64.whl")), ElementsAre("3.8"));
  EXPECT_EQ(pythons_of(wheel("a-1-py2.py3-none-any.whl")).size(), 11U);
  EXPECT_TRUE(pythons_of(wheel("a-1-cp38-cp38-win_amd64.whl")).empty());
}

}  // namespace
}  // namespace startrail::lock
