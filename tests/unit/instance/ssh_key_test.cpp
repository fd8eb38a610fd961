#include "instance/ssh_key.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"
#include "base/process.hpp"

namespace startrail::instance {
namespace {

TEST(SshKey, openssh_reads_the_private_file_and_finds_the_same_public_key) {
  if (!base::find_program("ssh-keygen")) GTEST_SKIP() << "ssh-keygen is not installed";
  const fs::path folder = *base::make_temporary_directory(fs::temp_directory_path(), "ssh-key");
  // Comments of different lengths need different padding.
  for (const std::string comment : {"", "a", "lab", "trail-lab", "a-comment-that-is-longer"}) {
    const auto key = make_ssh_key(comment);
    ASSERT_TRUE(key);
    ASSERT_TRUE(base::write_file_atomic(folder / "key", key->private_file, 0600));
    const auto told = base::run_process({.argv = {"ssh-keygen", "-y", "-f", (folder / "key").string()}});
    ASSERT_TRUE(told);
    EXPECT_EQ(told->errors, "");
    const std::string expected =
        comment.empty() ? key->public_line.substr(0, key->public_line.size() - 1) : key->public_line;
    EXPECT_EQ(told->output, expected + "\n");
  }
  [[maybe_unused]] const auto removed = base::remove_tree(folder);
}

TEST(SshKey, no_two_are_the_same) {
  EXPECT_NE(make_ssh_key("a")->public_line, make_ssh_key("a")->public_line);
}

}  // namespace
}  // namespace startrail::instance
