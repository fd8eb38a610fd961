// RECORD as text: what is read, what is written, what is refused.
#include "image/record_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace startrail::image {
namespace {

using ::testing::HasSubstr;

TEST(RecordText, what_is_read_is_written_again) {
  const std::string text = "a/b.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n\"a/c, \"\"d\"\".txt\",,7\n";
  const auto lines = parse_record(text);
  ASSERT_TRUE(lines);
  EXPECT_EQ((*lines)[1].path, "a/c, \"d\".txt");
  EXPECT_EQ(to_text(*lines), text);
}

TEST(RecordText, an_algorithm_without_its_hash_is_refused_like_a_hash_without_its_algorithm) {
  for (const char* text : {"a.py,sha256=,3\n", "a.py,sha256==,3\n", "a.py,=AA,3\n", "a.py,AA,3\n"}) {
    const auto lines = parse_record(text);
    ASSERT_FALSE(lines) << text;
    EXPECT_EQ(lines.error().code, ErrorCode::corrupt);
    EXPECT_THAT(lines.error().message, HasSubstr("without its")) << text;
  }
}

TEST(RecordText, a_hash_with_characters_that_no_hash_has_is_refused) {
  for (const char* text : {"a.py,\"sha,256=AA\",3\n", "a.py,\"sha256=A\nA\",3\n", "a.py,sha256=A=A,3\n"}) {
    const auto lines = parse_record(text);
    ASSERT_FALSE(lines) << text;
    EXPECT_EQ(lines.error().code, ErrorCode::corrupt);
  }
}

}  // namespace
}  // namespace startrail::image
