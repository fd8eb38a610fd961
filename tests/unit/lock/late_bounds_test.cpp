#include "lock/late_bounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace startrail::lock {
namespace {

Lock lock_of(std::vector<std::pair<std::string, std::string>> packages) {
  Lock lock;
  for (auto& [name, version] : packages) lock.packages.push_back({.name = name, .version = version});
  return lock;
}

TEST(LateBounds, an_old_torch_beside_numpy_2_asks_for_numpy_1) {
  const auto bounds = late_bounds(lock_of({{"numpy", "2.0.2"}, {"pandas", "1.5.3"}, {"torch", "1.11.0"}}));
  ASSERT_EQ(bounds.size(), 1U) << "one bound, whoever asks for it";
  EXPECT_EQ(bounds[0].requirement, "numpy<2");
  EXPECT_THAT(bounds[0].reason, testing::StartsWith("torch 1.11.0 is built for numpy 1"));
}

TEST(LateBounds, new_releases_and_old_numpy_need_none) {
  EXPECT_TRUE(late_bounds(lock_of({{"numpy", "2.0.2"}, {"torch", "2.3.0"}})).empty());
  EXPECT_TRUE(late_bounds(lock_of({{"numpy", "1.26.4"}, {"torch", "1.11.0"}})).empty());
  EXPECT_TRUE(late_bounds(lock_of({{"torch", "1.11.0"}})).empty());
}

TEST(LateBounds, what_imports_pkg_resources_gets_a_setuptools_that_has_it) {
  const auto bounds = late_bounds(lock_of({{"setuptools", "82.0.1"}, {"tensorboard", "2.15.0"}}));
  ASSERT_EQ(bounds.size(), 1U);
  EXPECT_EQ(bounds[0].requirement, "setuptools<82");
}

TEST(LateBounds, an_old_torch_beside_a_new_setuptools_asks_for_one_that_it_can_compile_with) {
  const auto bounds = late_bounds(lock_of({{"setuptools", "82.0.1"}, {"torch", "2.2.2"}}));
  ASSERT_EQ(bounds.size(), 1U);
  EXPECT_EQ(bounds[0].requirement, "setuptools<70");
  EXPECT_TRUE(late_bounds(lock_of({{"setuptools", "82.0.1"}, {"torch", "2.3.0"}})).empty());
}

}  // namespace
}  // namespace startrail::lock
