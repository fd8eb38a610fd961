#include "project/marker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace startrail::project {
namespace {

Truth on_linux(std::string_view text) {
  return Marker::parse(text).value().evaluate(linux_environment());
}

TEST(Marker, other_systems_are_ruled_out_whatever_the_python_is) {
  EXPECT_EQ(on_linux("sys_platform == 'win32'"), Truth::no);
  EXPECT_EQ(on_linux("sys_platform == 'win32' and python_version < '3.9'"), Truth::no);
  EXPECT_EQ(on_linux("platform_system != \"Darwin\""), Truth::yes);
  EXPECT_EQ(on_linux("os.name == 'nt'"), Truth::no);
}

TEST(Marker, what_depends_on_an_unknown_python_is_unknown) {
  EXPECT_EQ(on_linux("python_version < '3.9'"), Truth::unknown);
  EXPECT_EQ(on_linux("python_version < '3.9' or sys_platform == 'linux'"), Truth::yes);
  EXPECT_EQ(on_linux(""), Truth::yes);
}

TEST(Marker, python_versions_compare_as_versions) {
  MarkerEnvironment environment = linux_environment();
  environment["python_version"] = "3.11";
  EXPECT_EQ(Marker::parse("python_version >= '3.9'")->evaluate(environment), Truth::yes);
  EXPECT_EQ(Marker::parse("'3.9' > python_version")->evaluate(environment), Truth::no);
  EXPECT_EQ(Marker::parse("(python_version < '3.9' or extra == 'x') and os_name == 'posix'")->evaluate(environment),
            Truth::no);
  EXPECT_EQ(Marker::parse("'lin' in sys_platform")->evaluate(environment), Truth::yes);
  EXPECT_EQ(Marker::parse("sys_platform not in 'linux,darwin'")->evaluate(environment), Truth::no);
}

TEST(Marker, a_broken_marker_is_refused_with_the_reason) {
  EXPECT_THAT(Marker::parse("python_versoin < '3'").error().message,
              testing::HasSubstr("`python_versoin` is not a marker variable"));
  EXPECT_THAT(Marker::parse("os_name == 'a").error().message, testing::HasSubstr("quote is not closed"));
  EXPECT_THAT(Marker::parse("(os_name == 'a'").error().message, testing::HasSubstr("`)` is missing"));
  EXPECT_FALSE(Marker::parse("os_name == 'a' os_name == 'b'"));
  EXPECT_FALSE(Marker::parse("os_name 'a'"));
  EXPECT_FALSE(Marker::parse(std::string(5000, '(')));
}

}  // namespace
}  // namespace startrail::project
