#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "lock/lock.hpp"
#include "lock/locked_answer.hpp"
#include "lock/project_copy.hpp"

namespace startrail::lock {
namespace {

class OutOfDate : public testing::Test {
 protected:
  void SetUp() override {
    m_needs.folder = base::make_temporary_directory(fs::temp_directory_path(), "outdated").value();
    m_needs.packages = {requirement("torch", ""), requirement("numpy", "<2")};
    m_needs.sources = {{.file = "requirements.txt", .sha256 = "aa"}};
    m_lock.python = "3.11";
    m_lock.inputs = m_needs.sources;
    m_lock.settings_digest = settings_digest(m_needs);
  }
  void TearDown() override { (void)base::remove_tree(m_needs.folder); }
  static project::Requirement requirement(const std::string& name, const std::string& specifier) {
    return {.name = name, .specifier = specifier};
  }
  [[nodiscard]] std::string reason(const catalog::ChooseOptions& options = {}) const {
    return out_of_date(m_lock, m_needs, options).value_or("up to date");
  }
  project::Requirements m_needs;
  Lock m_lock;
};

TEST_F(OutOfDate, an_unchanged_project_is_up_to_date) {
  EXPECT_EQ(reason(), "up to date");
}

TEST_F(OutOfDate, a_changed_requirement_names_the_file) {
  m_needs.packages[1].specifier = ">=2";
  m_needs.sources[0].sha256 = "bb";
  EXPECT_EQ(reason(), "requirements.txt changed");
}

TEST_F(OutOfDate, order_and_comments_do_not_count) {
  std::ranges::reverse(m_needs.packages);
  m_needs.sources[0].sha256 = "bb";
  EXPECT_EQ(reason(), "up to date");
}

TEST_F(OutOfDate, a_foreign_lock_counts_as_a_whole) {
  m_needs.existing_lock = project::Fact<std::string>{.value = "uv.lock", .origin = {}};
  m_needs.sources = {{.file = "uv.lock", .sha256 = "aa"}};
  m_lock.inputs = m_needs.sources;
  m_lock.settings_digest = settings_digest(m_needs);
  EXPECT_EQ(reason(), "up to date");
  m_needs.sources[0].sha256 = "bb";
  EXPECT_EQ(reason(), "uv.lock changed");
}

TEST_F(OutOfDate, another_build_or_python_is_asked_for) {
  EXPECT_EQ(reason({.build = project::Build::cpu}), "it is for the GPU build");
  EXPECT_EQ(reason({.python = "3.9"}), "it is for Python 3.11");
  EXPECT_EQ(reason({.python = "3.11"}), "up to date");
}

TEST_F(OutOfDate, a_system_package_more_counts) {
  m_needs.system_packages.push_back({.value = "ffmpeg", .origin = {}});
  EXPECT_EQ(reason(), "what the project needs changed");
}

TEST_F(OutOfDate, the_content_of_a_built_in_folder_counts) {
  const fs::path library = m_needs.folder / "library";
  ASSERT_TRUE(base::make_directories(library).has_value());
  ASSERT_TRUE(base::write_file_atomic(library / "setup.py", "one").has_value());
  m_lock.packages.push_back({.name = "library", .kind = PackageKind::directory, .directory = "library"});
  m_lock.packages[0].artifact.sha256 = tree_digest(library).value();
  EXPECT_EQ(reason(), "up to date");
  ASSERT_TRUE(base::write_file_atomic(library / "setup.py", "two").has_value());
  EXPECT_EQ(reason(), "the folder library changed");
}

TEST_F(OutOfDate, the_metadata_of_an_editable_counts_and_its_code_does_not) {
  ASSERT_TRUE(base::write_file_atomic(m_needs.folder / "setup.py", "one").has_value());
  m_lock.packages.push_back(
      {.name = "own", .kind = PackageKind::directory, .directory = ".", .editable = project::Editable::yes});
  m_lock.packages[0].artifact.sha256 = metadata_digest(m_needs.folder).value();
  ASSERT_TRUE(base::write_file_atomic(m_needs.folder / "train.py", "code").has_value());
  EXPECT_EQ(reason(), "up to date");
  ASSERT_TRUE(base::write_file_atomic(m_needs.folder / "setup.py", "two").has_value());
  EXPECT_EQ(reason(), "what this package needs changed");
}

TEST_F(OutOfDate, becoming_a_package_counts_and_so_does_how_it_is_built) {
  const fs::path pyproject = m_needs.folder / "pyproject.toml";
  ASSERT_TRUE(base::write_file_atomic(pyproject, "[build-system]\n").has_value());
  m_needs.own_package = project::Fact<std::string>{.value = "own", .origin = {}};
  EXPECT_EQ(reason(), "what the project needs changed");
  m_lock.settings_digest = settings_digest(m_needs);
  EXPECT_EQ(reason(), "up to date");
  ASSERT_TRUE(base::write_file_atomic(pyproject, "[build-system]\n[tool.hatch]\n").has_value());
  EXPECT_EQ(reason(), "what the project needs changed");
}

TEST_F(OutOfDate, another_place_of_the_projects_packages_counts) {
  m_needs.import_roots = {"."};
  m_lock.settings_digest = settings_digest(m_needs);
  m_needs.import_roots = {"src"};
  EXPECT_EQ(reason(), "what the project needs changed");
}

TEST(ProjectCopy, environments_and_links_that_lead_out_stay_behind) {
  const fs::path root = base::make_temporary_directory(fs::temp_directory_path(), "copy").value();
  for (const char* folder : {"from/pkg", "from/.venv/lib", "from/.git"})
    ASSERT_TRUE(base::make_directories(root / folder).has_value());
  for (const char* file : {"from/pkg/a.py", "from/.venv/lib/b.py", "from/.git/config", "secret"})
    ASSERT_TRUE(base::write_file_atomic(root / file, "x").has_value());
  fs::create_symlink("../../secret", root / "from/pkg/out");
  fs::create_symlink("a.py", root / "from/pkg/in");
  ASSERT_TRUE(copy_project(root / "from", root / "to").has_value());
  EXPECT_TRUE(fs::exists(root / "to/pkg/a.py"));
  EXPECT_TRUE(fs::is_symlink(root / "to/pkg/in"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(root / "to/pkg/out")));
  EXPECT_FALSE(fs::exists(root / "to/.venv"));
  EXPECT_FALSE(fs::exists(root / "to/.git"));
  EXPECT_EQ(tree_digest(root / "from").value(), tree_digest(root / "to").value());
  (void)base::remove_tree(root);
}

}  // namespace
}  // namespace startrail::lock
