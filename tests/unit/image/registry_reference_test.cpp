#include "image/registry/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace startrail::image {
namespace {

using ::testing::HasSubstr;

const std::string k_digest = "sha256:" + std::string(64, 'a');

void expect_reads(std::string_view text, const Reference& wanted) {
  const auto read = parse_reference(text);
  ASSERT_TRUE(read) << text << ": " << read.error().message;
  EXPECT_EQ(*read, wanted) << text << " was read as " << read->text();
}

void expect_refused(std::string_view text, std::string_view why) {
  const auto read = parse_reference(text);
  ASSERT_FALSE(read) << text << " was read as " << read->text();
  EXPECT_EQ(read.error().code, ErrorCode::invalid_input);
  EXPECT_THAT(read.error().message, HasSubstr(std::string(why)));
  EXPECT_FALSE(read.error().hints.empty());
}

TEST(Reference, a_bare_name_is_of_docker_hubs_library) {
  expect_reads("python", {.host = "docker.io", .repository = "library/python", .tag = "latest"});
  expect_reads("python:3.12-slim", {.host = "docker.io", .repository = "library/python", .tag = "3.12-slim"});
  expect_reads("docker.io/python", {.host = "docker.io", .repository = "library/python", .tag = "latest"});
  expect_reads("index.docker.io/lab/x:1", {.host = "docker.io", .repository = "lab/x", .tag = "1"});
}

TEST(Reference, the_first_part_is_a_host_only_if_it_looks_like_one) {
  expect_reads("lab/train:1", {.host = "docker.io", .repository = "lab/train", .tag = "1"});
  expect_reads("localhost/x", {.host = "localhost", .repository = "x", .tag = "latest"});
  expect_reads("localhost:5000/x", {.host = "localhost:5000", .repository = "x", .tag = "latest"});
  expect_reads("ghcr.io/lab/a/b/c:v1", {.host = "ghcr.io", .repository = "lab/a/b/c", .tag = "v1"});
  expect_reads("Build/x", {.host = "Build", .repository = "x", .tag = "latest"});
  expect_reads("[::1]:5000/x:2", {.host = "[::1]:5000", .repository = "x", .tag = "2"});
}

TEST(Reference, tag_and_digest_may_both_be_there) {
  expect_reads("docker://ghcr.io/lab/x:1@" + k_digest,
               {.host = "ghcr.io", .repository = "lab/x", .tag = "1", .digest = k_digest});
  expect_reads("ghcr.io/lab/x@" + k_digest, {.host = "ghcr.io", .repository = "lab/x", .digest = k_digest});
  EXPECT_EQ(parse_reference("ghcr.io/lab/x:1@" + k_digest)->wanted(), k_digest);
  EXPECT_EQ(parse_reference("ghcr.io/lab/x:1")->wanted(), "1");
}

TEST(Reference, separators_stand_between_letters) {
  for (const char* good : {"a.b", "a_b", "a__b", "a-b", "a---b", "a1.b2_c3"})
    EXPECT_TRUE(parse_reference(good)) << good;
  for (const char* bad : {"a..b", "a___b", "a_-b", "-a", "a-", ".a", "a.", "_a"})
    EXPECT_FALSE(parse_reference(bad)) << bad;
}

TEST(Reference, what_is_wrong_is_named) {
  expect_refused("", "empty");
  expect_refused("https://ghcr.io/lab/x", "web address");
  expect_refused("ghcr.io/Lab/x", "`Lab` must be in lower case");
  expect_refused("ghcr.io//x", "empty part");
  expect_refused("ghcr.io/lab/", "empty part");
  expect_refused("ghcr.io/lab/x:", "tag is empty");
  expect_refused("ghcr.io/lab/x:a b", "the tag `a b`");
  expect_refused("ghcr.io/lab/x:-a", "the tag `-a`");
  expect_refused("ghcr.io/lab/x:" + std::string(129, 'a'), "longer than 128");
  expect_refused("ghcr.io/lab/x@sha256:abc", "the digest `sha256:abc`");
  expect_refused("ghcr.io/lab/x@md5:" + std::string(32, 'a'), "the digest");
  expect_refused("localhost:port/x", "the port `port`");
  expect_refused("localhost:99999/x", "the port `99999`");
  expect_refused("host_name.com/x", "the host `host_name.com`");
  expect_refused("ghcr.io/" + std::string(255, 'a'), "longer than 255");
  expect_refused("ghcr.io/a b", "`a b`");
}

TEST(Reference, credentials_in_a_name_are_refused_and_not_repeated) {
  for (const char* text : {"user:secret@ghcr.io/lab/x", "https://user:secret@ghcr.io/lab/x",
                           "user:secret@ghcr.io/Lab/x", "user:secret@ghcr.io"}) {
    const auto read = parse_reference(text);
    ASSERT_FALSE(read);
    EXPECT_THAT(to_text(read.error()), ::testing::Not(HasSubstr("secret")));
    EXPECT_THAT(to_text(read.error()), HasSubstr("ghcr.io"));
  }
  EXPECT_THAT(parse_reference("user:secret@ghcr.io/lab/x").error().message, HasSubstr("credentials"));
}

TEST(Reference, its_text_reads_as_the_same) {
  for (const std::string& text :
       {std::string("python"), std::string("localhost:5000/a/b:1"), "ghcr.io/x@" + k_digest}) {
    const auto read = parse_reference(text);
    ASSERT_TRUE(read);
    EXPECT_EQ(*parse_reference(read->text()), *read);
  }
}

TEST(Reference, only_names_with_a_place_are_taken_for_a_registrys) {
  EXPECT_TRUE(names_a_registry("ghcr.io/lab/x"));
  EXPECT_TRUE(names_a_registry("lab/x:1"));
  EXPECT_TRUE(names_a_registry("docker://python:3.12"));
  EXPECT_FALSE(names_a_registry("torch:2.6"));
  EXPECT_FALSE(names_a_registry("3f2a91"));
  EXPECT_FALSE(names_a_registry("sha256:3f2a91"));
}

TEST(Reference, loopback_is_known_by_name_and_number) {
  for (const char* host : {"localhost", "localhost:5000", "127.0.0.1:80", "127.9.9.9", "[::1]:5000"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"127.0.0.1.example.com", "localhost.example.com", "10.0.0.1", "ghcr.io", "[::2]:5000"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace startrail::image
