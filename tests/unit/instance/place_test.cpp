#include "instance/place.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"
#include "instance/ssh_texts.hpp"

namespace startrail::instance {
namespace {

TEST(InstanceName, one_that_ssh_or_the_filesystem_would_read_otherwise_is_refused) {
  for (const std::string name : {"", "..", ".hidden", "-oProxyCommand=x", "a b", "a/b", "*", "!a", "a\n", "a,b", "ä"})
    EXPECT_FALSE(check_name(name)) << name;
  EXPECT_FALSE(check_name(std::string(64, 'a')));
}

TEST(InstanceName, plain_ones_are_taken) {
  for (const std::string name : {"lab", "ResNet-50", "a", "7", "my_project.v2"}) EXPECT_TRUE(check_name(name)) << name;
  EXPECT_TRUE(check_name(std::string(63, 'a')));
}

TEST(InstanceName, a_folders_name_gives_one_whatever_it_is) {
  EXPECT_EQ(name_for_folder("/home/ada/resnet"), "resnet");
  EXPECT_EQ(name_for_folder("/home/ada/My Project (2)"), "My-Project-2");
  EXPECT_EQ(name_for_folder("/home/ada/.config"), "config");
  EXPECT_EQ(name_for_folder("/home/ada/___"), "instance");
  EXPECT_EQ(name_for_folder("/"), "instance");
  for (const char* folder : {"/a/-x-", "/a/ä", "/a/a*b", "/a/.."})
    EXPECT_TRUE(check_name(name_for_folder(folder))) << folder;
  EXPECT_TRUE(check_name(name_for_folder("/a/" + std::string(200, '.') + std::string(200, 'a'))));
}

TEST(ClientBlock, paths_with_spaces_and_percent_signs_reach_ssh_as_they_are) {
  const std::string block = client_block({.name = "lab",
                                          .user = "ada",
                                          .program = "/opt/my tools/trail",
                                          .state = "/data/50%/it's",
                                          .identity = "/data/50%/key",
                                          .known_hosts = "/data/a b/known"});
  EXPECT_NE(block.find("  ProxyCommand '/opt/my tools/trail' ssh-proxy '/data/50%%/it'\\''s' lab\n"), std::string::npos)
      << block;
  EXPECT_NE(block.find("  IdentityFile \"/data/50%%/key\"\n"), std::string::npos) << block;
  EXPECT_NE(block.find("  UserKnownHostsFile \"/data/a b/known\"\n"), std::string::npos) << block;
}

}  // namespace
}  // namespace startrail::instance
