#include "sandbox/identity.hpp"

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

TEST(Identity, rootless_is_the_callers_own_number) {
  const auto identity = caller_identity(23456, 23457);
  EXPECT_EQ(identity.uid, 23456U);
  EXPECT_EQ(identity.gid, 23457U);
  EXPECT_EQ(identity.user_name, "trail");  // no account of this host
}

TEST(Identity, where_owners_cannot_be_mapped_sudos_caller_runs) {
  ::setenv("SUDO_UID", "1001", 1);
  ::setenv("SUDO_GID", "1002", 1);
  const auto identity = unmapped_identity("/");
  ::unsetenv("SUDO_UID");
  ::unsetenv("SUDO_GID");
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->uid, 1001U);
  EXPECT_EQ(identity->gid, 1002U);
}

TEST(Identity, roots_folder_on_a_filesystem_without_maps_is_refused_with_a_way_out) {
  ::unsetenv("SUDO_UID");
  const auto identity = unmapped_identity("/");
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
