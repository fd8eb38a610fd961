#include "instance/ssh_config_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files.hpp"

namespace startrail::instance {
namespace {

const fs::path k_included = "/srv/state/instances/ssh_config";
const std::string k_line = "Include \"/srv/state/instances/ssh_config\"\n";

class SshConfigFile : public testing::Test {
 protected:
  void SetUp() override { m_folder = *base::make_temporary_directory(fs::temp_directory_path(), "ssh-config"); }
  void TearDown() override { [[maybe_unused]] const auto removed = base::remove_tree(m_folder); }
  [[nodiscard]] static unsigned mode_of(const fs::path& path) {
    struct stat status{};
    ::stat(path.c_str(), &status);
    return status.st_mode & 07777U;
  }
  fs::path m_folder;
};

TEST_F(SshConfigFile, the_line_comes_before_everything_and_nothing_else_changes) {
  const std::string before = "# mine\r\nHost *\n\tProxyJump gate\n\n\nHost b   # no newline at the end";
  EXPECT_EQ(with_include(before, k_included), k_line + before);
}

TEST_F(SshConfigFile, a_line_that_is_there_is_not_added_again) {
  const std::string before = "# a remark\n\n  " + k_line + "Host *\n  User ada\n";
  EXPECT_EQ(with_include(before, k_included), before);
}

TEST_F(SshConfigFile, a_line_inside_a_block_holds_for_its_hosts_only_and_so_does_not_count) {
  for (const std::string block : {"Host *\n", "match all\n", "HOST=a\n", "Host\ta\n"}) {
    const std::string before = block + k_line;
    EXPECT_EQ(with_include(before, k_included), k_line + before) << block;
  }
}

TEST_F(SshConfigFile, a_word_that_only_begins_like_host_is_no_block) {
  const std::string before = "HostKeyAlgorithms ssh-ed25519\n" + k_line;
  EXPECT_EQ(with_include(before, k_included), before);
}

TEST_F(SshConfigFile, another_state_folders_line_is_another_line) {
  const std::string before = "Include \"/elsewhere/instances/ssh_config\"\n";
  EXPECT_EQ(with_include(before, k_included), k_line + before);
}

TEST_F(SshConfigFile, a_host_of_the_users_own_with_the_name_is_found) {
  for (const std::string block : {"Host lab\n", "# x\n  host=lab", "HOST a \"lab\" b\r\n", "Host a\tLAB\n  User lab\n"})
    EXPECT_TRUE(names_host(block, "lab")) << block;
  for (const std::string block :
       {"", "Host *\n", "Host lab2 my-lab !lab\n", "HostName lab\n", "# Host lab\n", "User lab\n"})
    EXPECT_FALSE(names_host(block, "lab")) << block;
}

TEST_F(SshConfigFile, a_missing_file_is_made_for_its_owner_alone) {
  const fs::path file = m_folder / "home/.ssh/config";
  ASSERT_EQ(include_in(file, k_included).value(), Included::now);
  EXPECT_EQ(*base::read_file(file), k_line);
  EXPECT_EQ(mode_of(file), 0600U);
  EXPECT_EQ(mode_of(file.parent_path()), 0700U);
  EXPECT_EQ(include_in(file, k_included).value(), Included::already);
  EXPECT_EQ(*base::read_file(file), k_line);
}

TEST_F(SshConfigFile, the_mode_of_a_file_stays) {
  const fs::path file = m_folder / "config";
  ASSERT_TRUE(base::write_file_atomic(file, "Host a\n", 0640));
  ASSERT_EQ(include_in(file, k_included).value(), Included::now);
  EXPECT_EQ(mode_of(file), 0640U);
  EXPECT_EQ(*base::read_file(file), k_line + "Host a\n");
}

TEST_F(SshConfigFile, a_link_is_followed_and_stays_a_link) {
  const fs::path real = m_folder / "dotfiles/config";
  fs::create_directories(real.parent_path());
  ASSERT_TRUE(base::write_file_atomic(real, "Host a\n"));
  const fs::path link = m_folder / "config";
  fs::create_symlink("dotfiles/config", link);
  ASSERT_EQ(include_in(link, k_included).value(), Included::now);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(*base::read_file(real), k_line + "Host a\n");
}

TEST_F(SshConfigFile, a_link_to_a_file_that_is_not_there_yet_makes_that_file) {
  fs::create_directories(m_folder / "dotfiles");
  fs::create_symlink("dotfiles/config", m_folder / "config");
  ASSERT_EQ(include_in(m_folder / "config", k_included).value(), Included::now);
  EXPECT_TRUE(fs::is_symlink(m_folder / "config"));
  EXPECT_EQ(*base::read_file(m_folder / "dotfiles/config"), k_line);
}

}  // namespace
}  // namespace startrail::instance
