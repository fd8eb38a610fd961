#include "lock/undeclared.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.hpp"
#include "base/json.hpp"

namespace startrail::lock {
namespace {

TEST(Undeclared, every_triton_before_3_3_is_said_to_need_setuptools_beside_what_its_wheel_says) {
  const auto document = base::parse_toml(undeclared_settings(), "uv.toml");
  ASSERT_TRUE(document);
  std::map<std::string, std::vector<std::string>> needed;
  for (const Json& item : base::member(document->root, "dependency-metadata")) {
    EXPECT_EQ(base::string_at(item, "name"), "triton");
    needed[base::string_at(item, "version")] = base::strings_at(item, "requires-dist");
  }
  EXPECT_EQ(needed.size(), 8U);
  for (const auto& [version, requirements] : needed)
    EXPECT_THAT(requirements, testing::Contains("setuptools")) << version;
  EXPECT_THAT(needed["2.0.0"], testing::UnorderedElementsAre("cmake", "filelock", "torch", "lit", "setuptools"));
  EXPECT_THAT(needed["3.1.0"], testing::UnorderedElementsAre("filelock", "setuptools"));
  EXPECT_THAT(needed["3.2.0"], testing::UnorderedElementsAre("setuptools"));
}

TEST(Undeclared, no_release_is_meant_that_has_no_version) {
  const auto document = base::parse_toml(undeclared_settings(), "uv.toml");
  ASSERT_TRUE(document);
  for (const Json& item : base::member(document->root, "dependency-metadata"))
    EXPECT_FALSE(base::string_at(item, "version").empty()) << "triton 3.3 speaks for itself";
}

}  // namespace
}  // namespace startrail::lock
