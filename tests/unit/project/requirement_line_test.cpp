#include "project/requirement_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace startrail::project {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Origin k_origin{.file = "requirements.txt", .line = 7};

Requirement parsed(std::string_view text) {
  auto result = parse_requirement(text, k_origin);
  if (result) return std::move(*result);
  ADD_FAILURE() << base::to_text(result.error());
  return {};
}
Error refused(std::string_view text) {
  auto result = parse_requirement(text, k_origin);
  if (!result) return std::move(result).error();
  ADD_FAILURE() << text << " was taken";
  return {};
}
std::string round_trip(std::string_view text) {
  return to_pep508(parsed(text));
}

TEST(RequirementLine, a_pep_508_line_comes_apart_into_its_parts) {
  const Requirement requirement = parsed("Foo.Bar_baz [B, a_c] (>= 1.0 , < 2) ; python_version < '3.9'");
  EXPECT_EQ(requirement.name, "foo-bar-baz");
  EXPECT_THAT(requirement.extras, ElementsAre("b", "a-c"));
  EXPECT_EQ(requirement.specifier, ">=1.0,<2");
  EXPECT_EQ(requirement.marker, "python_version < '3.9'");
  EXPECT_EQ(to_text(requirement.origin), "requirements.txt:7");
  EXPECT_EQ(to_pep508(requirement), "foo-bar-baz[b,a-c]>=1.0,<2 ; python_version < '3.9'");
}

TEST(RequirementLine, git_addresses_keep_revision_and_folder_and_lose_the_egg) {
  EXPECT_EQ(round_trip("git+https://example.org/a/cocoapi.git@v1#subdirectory=PythonAPI&egg=pycocotools"),
            "pycocotools @ git+https://example.org/a/cocoapi.git@v1#subdirectory=PythonAPI");
  EXPECT_EQ(round_trip("deepspeed@git+https://example.org/x.git@91d1c55#egg=deepspeed"),
            "deepspeed @ git+https://example.org/x.git@91d1c55");
  EXPECT_EQ(round_trip("git+https://example.org/peft.git"), "git+https://example.org/peft.git");
  EXPECT_EQ(round_trip("git+git@example.org:owner/name.git"), "git+ssh://git@example.org/owner/name.git");
  const Requirement editable = parsed("-e git+https://example.org/t.git@master#egg=taming-transformers");
  EXPECT_EQ(editable.kind, SourceKind::vcs);
  EXPECT_EQ(editable.editable, Editable::yes);
  EXPECT_EQ(to_pep508(editable), "taming-transformers @ git+https://example.org/t.git@master");
}

TEST(RequirementLine, wheels_and_archives_are_told_by_their_address) {
  const Requirement wheel =
      parsed("https://example.org/torch-2.0.1%2Bcu118-cp310-cp310-linux_x86_64.whl ; sys_platform == 'linux'");
  EXPECT_EQ(wheel.kind, SourceKind::archive);
  EXPECT_EQ(wheel.name, "torch");
  EXPECT_EQ(wheel.specifier, "==2.0.1+cu118");
  EXPECT_EQ(wheel.marker, "sys_platform == 'linux'");
  EXPECT_EQ(parsed("https://example.org/x/archive/main.zip").name, "");
  EXPECT_THAT(parsed("a @ https://example.org/a-1.tar.gz#sha256=12ab").hashes, ElementsAre("sha256:12ab"));
}

TEST(RequirementLine, paths_are_folders_or_local_archives) {
  EXPECT_EQ(round_trip("-e ."), "-e .");
  EXPECT_EQ(round_trip("-e .[train,dev]"), "-e .[train,dev]");
  EXPECT_EQ(round_trip("libs/mine/"), "./libs/mine");
  EXPECT_EQ(round_trip("--editable=../shared"), "-e ../shared");
  EXPECT_EQ(round_trip("file:///data/my%20code"), "/data/my code");
  const Requirement wheel = parsed("wheels/apex-0.1-cp311-cp311-linux_x86_64.whl");
  EXPECT_EQ(wheel.kind, SourceKind::archive);
  EXPECT_EQ(wheel.name, "apex");
  EXPECT_EQ(wheel.location, "./wheels/apex-0.1-cp311-cp311-linux_x86_64.whl");
}

TEST(RequirementLine, a_refusal_names_place_rule_and_way_out) {
  const Error local = refused("torch~=1.12.1+cu113");
  EXPECT_EQ(local.code, ErrorCode::invalid_input);
  EXPECT_EQ(local.message,
            "requirements.txt:7: `torch~=1.12.1+cu113` is not a valid requirement: PEP 440 forbids a local version "
            "(+cu113) with ~=");
  EXPECT_THAT(local.hints, ElementsAre("write torch==1.12.1+cu113 or torch~=1.12.1"));
  EXPECT_THAT(refused("numpy=1.19.2").hints, ElementsAre("write numpy==1.19.2"));
  EXPECT_THAT(refused("torch 2.0").hints, ElementsAre("write one requirement per line, such as torch>=2.0"));
  EXPECT_THAT(refused("https://github.com/owner/name").hints, ElementsAre("write git+https://github.com/owner/name"));
  EXPECT_THAT(refused("torch[x").message, HasSubstr("`[` of its extras is not closed"));
  EXPECT_THAT(refused("torch; sys_platfrm == 'linux'").message, HasSubstr("sys_platfrm"));
  EXPECT_EQ(refused("hg+https://example.org/x").code, ErrorCode::unsupported);
}

TEST(RequirementLine, noise_is_refused_and_never_crashes) {
  for (const char* text : {"", "-e", "-e ", "@", "=", "==1.0", "a@", "a @", "git+", "[x]", ";", "a b c", "\"", "''",
                           "ftp://x/y", "<<<<<<< HEAD"})
    EXPECT_FALSE(parse_requirement(text, k_origin)) << text;
}

TEST(WheelName, name_and_version_come_from_the_file_name) {
  EXPECT_EQ(wheel_name("Foo_bar-1.0-py3-none-any.whl").name, "foo-bar");
  EXPECT_EQ(wheel_name("foo-1.0-1-py3-none-any.whl").version, "1.0");
  EXPECT_EQ(wheel_name("foo-1.0.tar.gz").name, "");
  EXPECT_EQ(wheel_name("a-b.whl").name, "");
}

TEST(NormalizedName, runs_of_separators_become_one_dash) {
  EXPECT_EQ(normalized_name("Foo._-Bar"), "foo-bar");
}

}  // namespace
}  // namespace startrail::project
