#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "app/background.hpp"
#include "app/circumstances.hpp"
#include "app/diff_runs.hpp"
#include "app/follow_run.hpp"
#include "app/lock_project.hpp"
#include "base/files.hpp"

namespace startrail::app {
namespace {

class Folder : public testing::Test {
 protected:
  void SetUp() override { m_folder = base::make_temporary_directory(fs::temp_directory_path(), "app").value(); }
  void TearDown() override { (void)base::remove_tree(m_folder); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((m_folder / name).parent_path());
    std::ofstream(m_folder / name) << text;
  }
  fs::path m_folder;
};

TEST(Seeds, are_found_in_variables_flags_and_assignments) {
  const Json seeds =
      find_seeds({"python", "train.py", "--seed", "7", "--random-seed=8", "trainer.seed=9", "--seeds-file", "x"},
                 {{"PYTHONHASHSEED", "3"}, {"DATA_SEED", "4"}, {"SEEDLING", "5"}});
  EXPECT_EQ(seeds, Json({{"DATA_SEED", "4"},
                         {"PYTHONHASHSEED", "3"},
                         {"--seed", "7"},
                         {"--random-seed", "8"},
                         {"trainer.seed", "9"}}));
}

TEST(Seeds, a_flag_at_the_end_has_no_value_and_is_left_out) {
  EXPECT_TRUE(find_seeds({"train", "--seed"}, {}).empty());
}

TEST(DiffMembers, tells_added_removed_and_changed_and_is_null_without_a_difference) {
  EXPECT_TRUE(diff_members(Json{{"a", 1}}, Json{{"a", 1}}).is_null());
  EXPECT_TRUE(diff_members(nullptr, nullptr).is_null());
  const Json difference = diff_members(Json{{"a", 1}, {"b", 2}}, Json{{"b", 3}, {"c", 4}});
  EXPECT_EQ(difference["removed"], Json({{"a", 1}}));
  EXPECT_EQ(difference["added"], Json({{"c", 4}}));
  EXPECT_EQ(difference["changed"]["b"], Json({{"a", 2}, {"b", 3}}));
}

TEST(PackagesOf, reads_names_and_versions_from_a_lock) {
  const Json packages = packages_of(
      "lock-version = '1.0'\n[[packages]]\nname = 'six'\nversion = '1.17.0'\n[[packages]]\nname = 'mine'\n");
  EXPECT_EQ(packages, Json({{"six", "1.17.0"}, {"mine", ""}}));
  EXPECT_TRUE(packages_of("").empty());
}

TEST(ExitStatus, is_the_commands_own_else_says_how_it_ended) {
  run::Status status;
  status.state = run::State::failed;
  EXPECT_EQ(exit_status(status), 125);
  status.running = base::now();
  status.exit_code = 3;
  EXPECT_EQ(exit_status(status), 3);
  status.exit_code.reset();
  status.signal = 11;
  EXPECT_EQ(exit_status(status), 139);
  status = {.state = run::State::succeeded};
  EXPECT_EQ(exit_status(status), 0);
  status = {.state = run::State::lost, .running = base::now()};
  EXPECT_EQ(exit_status(status), 137);
}

TEST_F(Folder, logout_ends_runs_only_when_logind_says_so_and_the_user_does_not_linger) {
  if (::geteuid() == 0) GTEST_SKIP() << "root's processes are never ended";
  const Installation installation{.user = "ada"};
  EXPECT_FALSE(ends_with_logout(installation, m_folder));
  write("etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=yes\n");
  EXPECT_FALSE(ends_with_logout(installation, m_folder));
  write("etc/systemd/logind.conf.d/10-kill.conf", "[Login]\nKillUserProcesses=yes\n");
  const auto warning = ends_with_logout(installation, m_folder);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("loginctl enable-linger ada"), std::string::npos);
  write("var/lib/systemd/linger/ada", "");
  EXPECT_FALSE(ends_with_logout(installation, m_folder));
}

TEST_F(Folder, a_project_is_a_folder_that_can_be_read) {
  write("file", "x");
  EXPECT_EQ(project_folder(m_folder / "file").error().code, ErrorCode::invalid_input);
  EXPECT_EQ(project_folder(m_folder / "nowhere").error().code, ErrorCode::not_found);
  EXPECT_EQ(project_folder(m_folder / "file" / "under").error().code, ErrorCode::not_found);
  EXPECT_EQ(project_folder(m_folder / "."), fs::canonical(m_folder));
}

}  // namespace
}  // namespace startrail::app
