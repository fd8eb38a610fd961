#include "run/git_facts.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.hpp"
#include "base/process.hpp"
#include "run/temporary_folder.hpp"

namespace startrail::run {
namespace {

class Repository : public testing::Test {
 protected:
  Repository() {
    git({"init", "-q"});
    write_test_file(folder / "train.py", "1");
    git({"add", "."});
    git({"commit", "-q", "-m", "first"});
  }
  std::string git(const std::vector<std::string>& arguments) {
    std::vector<std::string> argv{"git",
                                  "-C",
                                  folder.path().string(),
                                  "-c",
                                  "user.name=Ada",
                                  "-c",
                                  "user.email=a@b.c",
                                  "-c",
                                  "init.defaultBranch=main"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const auto result = base::run_process({.argv = argv}).value();
    EXPECT_TRUE(result.succeeded()) << result.errors;
    return result.output.substr(0, result.output.find('\n'));
  }
  TemporaryFolder folder;
};

TEST_F(Repository, gives_commit_branch_and_cleanliness) {
  const Json facts = git_facts(folder.path());
  EXPECT_EQ(facts, (Json{{"commit", git({"rev-parse", "HEAD"})}, {"branch", "main"}, {"dirty", false}}));
  write_test_file(folder / "train.py", "2");
  EXPECT_EQ(git_facts(folder.path()).at("dirty"), true);
}

TEST_F(Repository, is_found_from_a_folder_inside) {
  fs::create_directories(folder / "a/b");
  EXPECT_EQ(git_facts(folder / "a/b").at("branch"), "main");
}

TEST_F(Repository, packed_references_and_slashes_in_branches_are_read) {
  git({"checkout", "-q", "-b", "feature/x"});
  git({"pack-refs", "--all"});
  const Json facts = git_facts(folder.path());
  EXPECT_EQ(facts.at("branch"), "feature/x");
  EXPECT_EQ(facts.at("commit"), git({"rev-parse", "HEAD"}));
}

TEST_F(Repository, a_detached_head_has_a_commit_but_no_branch) {
  git({"checkout", "-q", "--detach"});
  const Json facts = git_facts(folder.path());
  EXPECT_TRUE(facts.at("branch").is_null());
  EXPECT_EQ(facts.at("commit"), git({"rev-parse", "HEAD"}));
}

TEST_F(Repository, a_linked_worktree_is_read_through_its_main_repository) {
  TemporaryFolder other;
  git({"worktree", "add", "-q", (other / "tree").string(), "-b", "side"});
  const Json facts = git_facts(other / "tree");
  EXPECT_EQ(facts.at("branch"), "side");
  EXPECT_EQ(facts.at("commit"), git({"rev-parse", "HEAD"}));
  EXPECT_EQ(facts.at("dirty"), false);
}

TEST_F(Repository, one_without_a_commit_has_none) {
  TemporaryFolder fresh;
  ASSERT_TRUE(
      base::run_process({.argv = {"git", "-C", fresh.path().string(), "init", "-q", "-b", "trunk"}})->succeeded());
  const Json facts = git_facts(fresh.path());
  EXPECT_TRUE(facts.at("commit").is_null());
  EXPECT_EQ(facts.at("branch"), "trunk");
}

TEST_F(Repository, of_somebody_else_is_read_but_none_of_its_programs_is_run) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make one";
  git({"config", "filter.evil.clean", "touch " + (folder / "ran").string() + "; cat"});
  write_test_file(folder / ".gitattributes", "* filter=evil\n");
  write_test_file(folder / "train.py", "2");
  for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
    ASSERT_EQ(::lchown(entry.path().c_str(), 1234, 1234), 0);
  ASSERT_EQ(::chown(folder.path().c_str(), 1234, 1234), 0);
  const Json facts = git_facts(folder.path());
  EXPECT_EQ(facts.at("branch"), "main");
  EXPECT_TRUE(facts.at("dirty").is_null());
  EXPECT_FALSE(fs::exists(folder / "ran"));
}

TEST(NoRepository, is_null) {
  TemporaryFolder folder;
  EXPECT_TRUE(git_facts(folder.path()).is_null());
}

}  // namespace
}  // namespace startrail::run
