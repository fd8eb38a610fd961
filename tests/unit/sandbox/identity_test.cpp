#include "sandbox/identity.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.hpp"
#include "sandbox/linux/mount_calls.hpp"

namespace startrail::sandbox {
namespace {

const Identity k_ada{.uid = 1234, .gid = 1234, .host_uid = 1234, .host_gid = 1234, .user_name = "ada", .how = {}};

TEST(Identity, the_user_comes_after_root_and_before_all_others) {
  EXPECT_EQ(with_user("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:\n", k_ada, "/home/ada"),
            "root:x:0:0:root:/root:/bin/bash\nada:x:1234:1234:ada:/home/ada:/bin/bash\ndaemon:x:1:1::/:\n");
}

TEST(Identity, an_account_of_the_image_with_the_same_name_gives_way) {
  EXPECT_EQ(with_user("root:x:0:0::/root:/bin/sh\nada:x:7:7::/:\n", k_ada, "/h"),
            "root:x:0:0::/root:/bin/sh\nada:x:1234:1234:ada:/h:/bin/bash\n");
}

TEST(Identity, an_image_without_accounts_gets_root_and_the_user) {
  EXPECT_EQ(with_group("", k_ada), "root:x:0:\nada:x:1234:\n");
}

TEST(Identity, the_terminals_group_has_the_number_that_terminals_have) {
  EXPECT_EQ(with_terminal_group("root:x:0:\ntty:x:5:\nada:x:1234:\n", 1234), "root:x:0:\nada:x:1234:\ntty:x:1234:\n");
  EXPECT_EQ(with_terminal_group("root:x:0:", 7), "root:x:0:\ntty:x:7:\n");
}

TEST(Identity, an_account_gets_the_shell_that_there_is) {
  EXPECT_EQ(with_user("", k_ada, "/home/ada", "/bin/sh"),
            "root:x:0:0:root:/root:/bin/bash\nada:x:1234:1234:ada:/home/ada:/bin/sh\n");
}

TEST(Identity, rootless_is_the_callers_own_number) {
  const auto identity = caller_identity(23456, 23457);
  EXPECT_EQ(identity.uid, 23456U);
  EXPECT_EQ(identity.gid, 23457U);
  EXPECT_EQ(identity.user_name, "trail");  // no account of this host
}

TEST(Identity, where_owners_cannot_be_mapped_sudos_caller_runs) {
  ::setenv("SUDO_UID", "1001", 1);
  ::setenv("SUDO_GID", "1002", 1);
  const auto identity = unmapped_identity("/", 0, 0);
  ::unsetenv("SUDO_UID");
  ::unsetenv("SUDO_GID");
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->uid, 1001U);
  EXPECT_EQ(identity->gid, 1002U);
}

TEST(Identity, where_owners_cannot_be_mapped_and_nobody_called_sudo_the_folders_owner_runs) {
  ::unsetenv("SUDO_UID");
  const auto identity = unmapped_identity("/srv/code", 4321, 4322);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->uid, 4321U);
  EXPECT_EQ(identity->gid, 4322U);
}

class AccountFiles : public ::testing::Test {
 protected:
  void SetUp() override { m_etc = *base::make_temporary_directory(fs::temp_directory_path(), "etc"); }
  void TearDown() override { EXPECT_TRUE(base::remove_tree(m_etc)); }
  void write(const char* name, const std::string& content) const {
    ASSERT_TRUE(base::write_file_atomic(m_etc / name, content));
  }
  fs::path m_etc;
};

TEST_F(AccountFiles, every_run_has_a_uid_of_its_own_that_stays_the_same) {
  const unsigned first = run_uid("quiet-falcon-3f2a", m_etc);
  EXPECT_EQ(run_uid("quiet-falcon-3f2a", m_etc), first);
  EXPECT_NE(run_uid("quiet-falcon-3f2b", m_etc), first);
  for (const char* id : {"a", "b", "calm-otter-0001", ""}) {
    EXPECT_GE(run_uid(id, m_etc), k_first_run_uid) << id;
    EXPECT_LT(run_uid(id, m_etc), k_first_run_uid + k_run_uids) << id;
  }
}

TEST_F(AccountFiles, a_number_that_somebody_has_is_not_a_runs) {
  const unsigned wanted = run_uid("calm-otter-0001", m_etc);
  write("passwd", fmt::format("root:x:0:0::/:\nada:x:{}:7::/:\n", wanted));
  EXPECT_EQ(run_uid("calm-otter-0001", m_etc), wanted + 1);
  write("group", fmt::format("team:x:{}:\n", wanted + 1));
  EXPECT_EQ(run_uid("calm-otter-0001", m_etc), wanted + 2);
  write("subuid", fmt::format("ada:100000:65536\nbob:{}:10\n", wanted + 2));
  EXPECT_EQ(run_uid("calm-otter-0001", m_etc), wanted + 12);
  write("subgid", fmt::format("bob:{}:10", wanted + 12));
  EXPECT_EQ(run_uid("calm-otter-0001", m_etc), wanted + 22);
}

TEST_F(AccountFiles, a_range_up_to_the_last_number_sends_a_run_to_the_first) {
  const unsigned wanted = run_uid("calm-otter-0001", m_etc);
  write("subuid", fmt::format("ada:{}:5000000\n", wanted));
  EXPECT_EQ(run_uid("calm-otter-0001", m_etc), k_first_run_uid);
}

TEST(Identity, roots_folder_on_a_filesystem_without_maps_is_refused_with_a_way_out) {
  ::unsetenv("SUDO_UID");
  const auto identity = unmapped_identity("/", 0, 0);
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().code, ErrorCode::unsupported);
  EXPECT_FALSE(identity.error().hints.empty());
}

TEST(SwappingMap, swaps_two_ids_and_keeps_all_others) {
  EXPECT_EQ(swapping_map(0, 100000), "0 100000 1\n1 1 99999\n100000 0 1\n100001 100001 4294867294\n");
  EXPECT_EQ(swapping_map(1000, 1001), "0 0 1000\n1000 1001 1\n1001 1000 1\n1002 1002 4294966293\n");
  EXPECT_EQ(swapping_map(5, 5), "0 0 4294967295\n");
}

TEST(SwappingMap, does_not_depend_on_the_order) {
  EXPECT_EQ(swapping_map(7, 9), swapping_map(9, 7));
}

}  // namespace
}  // namespace startrail::sandbox
