#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files.hpp"
#include "image/registry/challenge.hpp"
#include "image/registry/credentials.hpp"
#include "image/registry/known_blobs.hpp"
#include "image/registry/session.hpp"
#include "image/registry/upload.hpp"

namespace startrail::image {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Parameters = std::map<std::string, std::string>;

TEST(Challenge, a_token_servers_is_read_with_its_quotes) {
  EXPECT_THAT(parse_challenges(
                  R"(Bearer realm="https://auth.example/token",service="reg, one",scope="repository:a/b:pull,push")"),
              ElementsAre(Challenge{.scheme = "bearer",
                                    .parameters = {{"realm", "https://auth.example/token"},
                                                   {"service", "reg, one"},
                                                   {"scope", "repository:a/b:pull,push"}}}));
}

TEST(Challenge, several_in_one_header_are_told_apart) {
  const auto found = parse_challenges(R"(Negotiate, Basic realm="x" , BEARER Realm=y)");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0], (Challenge{.scheme = "negotiate", .parameters = {}}));
  EXPECT_EQ(found[1], (Challenge{.scheme = "basic", .parameters = Parameters{{"realm", "x"}}}));
  EXPECT_EQ(found[2], (Challenge{.scheme = "bearer", .parameters = Parameters{{"realm", "y"}}}));
}

TEST(Challenge, what_is_broken_ends_and_gives_what_could_be_read) {
  EXPECT_TRUE(parse_challenges("").empty());
  EXPECT_TRUE(parse_challenges("\"\"==,,\x01").empty());
  EXPECT_THAT(parse_challenges(R"(Basic realm="never closed)"),
              ElementsAre(Challenge{.scheme = "basic", .parameters = Parameters{{"realm", "never closed"}}}));
  EXPECT_EQ(parse_challenges(R"(Basic realm="a\"b")")[0].parameters.at("realm"), "a\"b");
}

TEST(Base64, bytes_survive_both_ways_and_rubbish_is_refused) {
  for (const std::string& bytes : {std::string(""), std::string("a"), std::string("ab"), std::string("abc"),
                                   std::string("user:pass\xff\x00word", 15)})
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  EXPECT_EQ(to_base64("user:pass"), "dXNlcjpwYXNz");
  EXPECT_EQ(from_base64("a"), std::nullopt);
  EXPECT_EQ(from_base64("ab*d"), std::nullopt);
}

class Credential : public ::testing::Test {
 protected:
  Credential() : m_folder(*base::make_temporary_directory(fs::temp_directory_path(), "credentials")) {
    // The helper scripts of these tests are found before any that this machine has.
    m_environment = {{"HOME", (m_folder / "home").string()},
                     {"XDG_RUNTIME_DIR", (m_folder / "run").string()},
                     {"PATH", (m_folder / "bin").string() + ":/usr/bin:/bin"}};
    m_path = *base::environment_variable("PATH");
    ::setenv("PATH", m_environment.at("PATH").c_str(), 1);
  }
  ~Credential() override {
    ::setenv("PATH", m_path.c_str(), 1);
    (void)base::remove_tree(m_folder);
  }

  void write(const std::string& file, const std::string& text, fs::perms more = fs::perms::none) {
    fs::create_directories((m_folder / file).parent_path());
    std::ofstream(m_folder / file) << text;
    fs::permissions(m_folder / file, more, fs::perm_options::add);
  }
  void write_helper(const std::string& name, const std::string& script) {
    write("bin/docker-credential-" + name, "#!/bin/sh\n" + script, fs::perms::owner_exec);
  }
  CredentialSearch search(std::string_view reference) {
    auto found = find_credentials(m_environment, *parse_reference(reference));
    EXPECT_TRUE(found) << found.error().message;
    return found.value_or(CredentialSearch{});
  }
  std::string user_for(std::string_view reference) {
    const auto result = search(reference);
    return result.found ? result.found->user : "";
  }

  fs::path m_folder;
  base::Environment m_environment;
  std::string m_path;
};

std::string auths(const std::string& key, const std::string& pair) {
  return R"({"auths": {")" + key + R"(": {"auth": ")" + to_base64(pair) + R"("}}})";
}

TEST_F(Credential, without_any_file_one_is_nobody) {
  EXPECT_FALSE(search("ghcr.io/lab/x").found);
}

TEST_F(Credential, dockers_file_gives_user_and_password_of_the_host_alone) {
  write("home/.docker/config.json", auths("ghcr.io", "me:pass:word"));
  const auto found = search("ghcr.io/lab/x").found;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->user, "me");
  EXPECT_EQ(found->password, "pass:word");
  EXPECT_THAT(found->from, HasSubstr(".docker/config.json"));
  EXPECT_EQ(user_for("quay.io/lab/x"), "");
  EXPECT_EQ(user_for("ghcr.io:444/lab/x"), "");
}

TEST_F(Credential, docker_hub_is_found_by_its_old_address) {
  write("home/.docker/config.json", auths("https://index.docker.io/v1/", "hub:x"));
  EXPECT_EQ(user_for("python:3.12"), "hub");
}

TEST_F(Credential, an_entry_for_the_repository_goes_before_its_hosts) {
  write("run/containers/auth.json", R"({"auths": {"ghcr.io": {"auth": ")" + to_base64("host:x") +
                                        R"("}, "ghcr.io/lab": {"auth": ")" + to_base64("lab:x") + R"("}}})");
  EXPECT_EQ(user_for("ghcr.io/lab/x"), "lab");
  EXPECT_EQ(user_for("ghcr.io/laboratory/x"), "host");
}

TEST_F(Credential, the_places_are_looked_through_in_order_and_a_named_one_is_the_only_one) {
  write("home/.config/containers/auth.json", auths("ghcr.io", "config:x"));
  EXPECT_EQ(user_for("ghcr.io/x"), "config");
  write("run/containers/auth.json", auths("ghcr.io", "runtime:x"));
  EXPECT_EQ(user_for("ghcr.io/x"), "runtime");
  write("docker/config.json", auths("ghcr.io", "docker:x"));
  m_environment["DOCKER_CONFIG"] = (m_folder / "docker").string();
  EXPECT_EQ(user_for("ghcr.io/x"), "docker");
  write("own.json", auths("quay.io", "own:x"));
  m_environment["REGISTRY_AUTH_FILE"] = (m_folder / "own.json").string();
  EXPECT_EQ(user_for("quay.io/x"), "own");
  EXPECT_EQ(user_for("ghcr.io/x"), "");
}

TEST_F(Credential, tokens_are_told_from_passwords) {
  write("home/.docker/config.json",
        R"({"auths": {"a.io": {"identitytoken": "refresh"}, "b.io": {"registrytoken": "ready"}}})");
  EXPECT_EQ(search("a.io/x").found->identity_token, "refresh");
  EXPECT_EQ(search("b.io/x").found->registry_token, "ready");
}

TEST_F(Credential, a_helper_is_asked_for_the_host_over_its_input) {
  write_helper("mine",
               R"(read server; echo "{\"ServerURL\":\"$server\",\"Username\":\"$1-$server\",\"Secret\":\"s\"}")");
  write("home/.docker/config.json", R"({"credHelpers": {"ghcr.io": "mine"}})");
  const auto found = search("ghcr.io/lab/x").found;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->user, "get-ghcr.io");
  EXPECT_EQ(found->password, "s");
  EXPECT_EQ(user_for("quay.io/x"), "");
}

TEST_F(Credential, a_store_is_asked_for_every_host_and_may_give_a_refresh_token) {
  write_helper("all", R"(read server; echo "{\"Username\":\"<token>\",\"Secret\":\"of $server\"}")");
  write("home/.docker/config.json", R"({"credsStore": "all"})");
  EXPECT_EQ(search("python").found->identity_token, "of https://index.docker.io/v1/");
  EXPECT_EQ(search("quay.io/x").found->identity_token, "of quay.io");
}

TEST_F(Credential, a_helper_that_has_none_is_no_remark_and_one_that_is_missing_is) {
  write_helper("empty", "echo 'credentials not found in native keychain'; exit 1");
  write("home/.docker/config.json", R"({"credsStore": "empty"})");
  EXPECT_TRUE(search("quay.io/x").remarks.empty());
  write("home/.docker/config.json", R"({"credsStore": "is-not-installed"})");
  const auto result = search("quay.io/x");
  EXPECT_FALSE(result.found);
  EXPECT_THAT(result.remarks, ElementsAre(HasSubstr("docker-credential-is-not-installed")));
}

TEST_F(Credential, a_file_that_is_no_json_is_named_without_a_word_of_what_it_holds) {
  write("home/.docker/config.json", R"({"auths": {"ghcr.io": {"auth": "topsecret)");
  const auto found = find_credentials(m_environment, *parse_reference("ghcr.io/x"));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::corrupt);
  EXPECT_THAT(found.error().message, HasSubstr(".docker/config.json"));
  EXPECT_THAT(to_text(found.error()) + found.error().detail, Not(HasSubstr("topsecret")));
}

TEST(KnownBlobs, another_repository_of_the_same_host_is_remembered) {
  const fs::path folder = *base::make_temporary_directory(fs::temp_directory_path(), "known-blobs");
  const Store store = *Store::open(folder);
  const Reference first = *parse_reference("ghcr.io/lab/first:1"), second = *parse_reference("ghcr.io/lab/second:1");
  ASSERT_TRUE(remember_blobs(store, first, {"sha256:a", "sha256:b"}));
  EXPECT_EQ(repository_with(store, second, "sha256:a"), "lab/first");
  EXPECT_EQ(repository_with(store, first, "sha256:a"), std::nullopt);
  EXPECT_EQ(repository_with(store, *parse_reference("quay.io/lab/second"), "sha256:a"), std::nullopt);
  ASSERT_TRUE(remember_blobs(store, second, {"sha256:a"}));
  EXPECT_EQ(repository_with(store, *parse_reference("ghcr.io/lab/third"), "sha256:a"), "lab/second");
  std::ofstream(folder / "registries/blobs.json") << "{";
  EXPECT_EQ(repository_with(store, second, "sha256:a"), std::nullopt);
  ASSERT_TRUE(remember_blobs(store, first, {"sha256:a"}));
  EXPECT_EQ(repository_with(store, second, "sha256:a"), "lab/first");
  (void)base::remove_tree(folder);
}

TEST(RegistryAnswers, the_range_of_an_upload_says_how_much_is_there) {
  EXPECT_EQ(bytes_in_range("0-1023"), 1024U);
  EXPECT_EQ(bytes_in_range("bytes=0-9"), 10U);
  for (const char* nothing : {"0-0", "", "5-9", "0-", "0-x", "bytes"}) EXPECT_EQ(bytes_in_range(nothing), std::nullopt);
}

TEST(RegistryAnswers, errors_are_one_short_line) {
  EXPECT_EQ(registry_errors(R"({"errors":[{"code":"DENIED","message":"no\naccess"},{"code":"UNKNOWN"}]})"),
            "DENIED: no access; UNKNOWN");
  EXPECT_EQ(registry_errors("<html>"), "");
  EXPECT_LE(registry_errors(R"({"errors":[{"code":")" + std::string(5000, 'x') + "\"}]}").size(), 200U);
}

}  // namespace
}  // namespace startrail::image
