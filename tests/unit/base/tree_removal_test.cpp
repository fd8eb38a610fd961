// remove_tree and make_directories on trees that hostile programs leave.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/files.hpp"

namespace startrail::base {
namespace {

struct Folder {
  fs::path path = *make_temporary_directory(fs::temp_directory_path(), "trail-tree-test");
  ~Folder() { (void)remove_tree(path); }
};

TEST(Files, trees_that_are_deeper_than_open_files_allow_are_removed) {
  const Folder folder;
  constexpr int k_depth = 3000;
  Fd at = open_file(folder.path, O_RDONLY | O_DIRECTORY).value();
  for (int level = 0; level < k_depth; ++level) {
    ASSERT_EQ(::mkdirat(at.get(), "nested", 0755), 0);
    if (level % 100 == 0) {
      ASSERT_EQ(::mkdirat(at.get(), "beside", 0755), 0);
    }
    at = Fd(::openat(at.get(), "nested", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at.valid());
  }
  at.reset();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  const auto removed = remove_tree(folder.path);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(removed) << to_text(removed.error());
  EXPECT_FALSE(fs::exists(folder.path));
}

TEST(Files, a_folder_that_is_a_circle_of_links_is_an_error_not_an_exception) {
  const Folder folder;
  fs::create_symlink("circle", folder.path / "circle");
  const auto made = make_directories(folder.path / "circle");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::conflict);
}

TEST(Files, removing_a_link_to_a_folder_leaves_the_folder_as_it_is) {
  const Folder folder;
  ASSERT_TRUE(make_directories(folder.path / "outside"));
  ASSERT_EQ(::chmod((folder.path / "outside").c_str(), 0500), 0);
  ASSERT_TRUE(make_directories(folder.path / "tree"));
  fs::create_directory_symlink(folder.path / "outside", folder.path / "tree/link");
  ASSERT_TRUE(remove_tree(folder.path / "tree"));
  EXPECT_EQ(fs::status(folder.path / "outside").permissions(), fs::perms::owner_read | fs::perms::owner_exec);
}

}  // namespace
}  // namespace startrail::base
