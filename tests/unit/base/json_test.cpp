#include "base/json.hpp"

#include <gtest/gtest.h>

namespace startrail::base {
namespace {

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') + std::string(static_cast<std::size_t>(levels), ']');
}

TEST(Json, what_is_nested_too_deeply_is_refused_and_what_is_written_in_strings_does_not_count) {
  EXPECT_TRUE(parse_json(nested(100), "it"));
  for (const int levels : {101, 1'000'000}) {
    const auto parsed = parse_json(nested(levels), "it");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, ErrorCode::corrupt);
    EXPECT_EQ(parsed.error().message, "it is nested too deeply");
  }
  const auto text = parse_json(R"({"a": "\"\\\")" + nested(200) + R"("})", "it");
  ASSERT_TRUE(text) << to_text(text.error());
  EXPECT_FALSE(parse_json(R"({"a": ")", "it")) << "a string that never ends";
}

TEST(Json, many_values_side_by_side_are_not_deep) {
  std::string text = "[";
  for (int i = 0; i < 1000; ++i) text += "{},";
  EXPECT_TRUE(parse_json(text + "[]]", "it"));
}

}  // namespace
}  // namespace startrail::base
