#include "image/without_sync.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace startrail::image {
namespace {

// /proc/self/mounts can't be synced: EINVAL says that the kernel was asked.
constexpr const char* k_sync_what_cannot_be_synced =
    "import os, sys\n"
    "fd = os.open('/proc/self/mounts', os.O_RDONLY)\n"
    "try:\n"
    "    os.fsync(fd)\n"
    "    print('done')\n"
    "except OSError as error:\n"
    "    print('asked')\n";

base::Command command() {
  return {.argv = {"python3", "-c", k_sync_what_cannot_be_synced}};
}

TEST(WithoutSync, a_program_and_what_it_starts_is_spared_waiting_for_the_disk) {
  if (::geteuid() != 0) GTEST_SKIP() << "an ordinary user can't do so without giving up setuid programs";
  EXPECT_EQ(base::run_process(command())->output, "asked\n");
  EXPECT_EQ(run_without_sync(command())->output, "done\n");
  const auto grandchild = run_without_sync({.argv = {"sh", "-c", "python3 -c \"$0\"", k_sync_what_cannot_be_synced}});
  EXPECT_EQ(grandchild->output, "done\n");
}

TEST(WithoutSync, nothing_of_it_stays_with_the_caller) {
  ASSERT_TRUE(run_without_sync({.argv = {"true"}}));
  EXPECT_EQ(base::run_process(command())->output, "asked\n");
}

TEST(WithoutSync, a_program_that_is_not_there_is_named) {
  const auto result = run_without_sync({.argv = {"no-such-program-anywhere"}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, base::ErrorCode::not_found);
}

}  // namespace
}  // namespace startrail::image
