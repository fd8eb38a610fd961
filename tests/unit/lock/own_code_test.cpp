// The project's own code in locks and wheels, as far as no backend is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "base/process.hpp"
#include "lock/lock_text.hpp"
#include "lock/own_code.hpp"
#include "lock/source_wheel.hpp"

namespace startrail::lock {
namespace {

using testing::HasSubstr;
using testing::Not;

class OwnCode : public testing::Test {
 protected:
  void SetUp() override {
    m_folder = base::make_temporary_directory(fs::temp_directory_path(), "own-code").value();
    m_needs.folder = m_folder;
    m_lock.python = "3.11";
    m_lock.suite = "bookworm";
  }
  void TearDown() override { (void)base::remove_tree(m_folder); }

  fs::path m_folder;
  project::Requirements m_needs;
  Lock m_lock;
};

TEST_F(OwnCode, the_package_that_the_project_is_becomes_an_editable) {
  EXPECT_FALSE(own_package(m_needs, m_lock).value());
  m_needs.own_package = project::Fact<std::string>{.value = "own", .origin = {}};
  const auto package = own_package(m_needs, m_lock).value();
  ASSERT_TRUE(package);
  EXPECT_EQ(package->name, "own");
  EXPECT_EQ(package->directory, ".");
  EXPECT_EQ(package->editable, project::Editable::yes);
}

TEST_F(OwnCode, it_is_not_added_a_second_time) {
  m_needs.own_package = project::Fact<std::string>{.value = "own", .origin = {}};
  m_lock.packages = {{.name = "own", .version = "2"}};
  EXPECT_FALSE(own_package(m_needs, m_lock).value()) << "the same name from an index";
  m_lock.packages = {{.name = "alias", .kind = PackageKind::directory, .directory = "."}};
  EXPECT_FALSE(own_package(m_needs, m_lock).value()) << "asked for by -e .";
}

TEST_F(OwnCode, an_import_path_reads_back_and_is_no_package_to_other_tools) {
  m_lock.packages = {import_path("src")};
  const std::string text = to_toml(m_lock);
  EXPECT_THAT(text, HasSubstr("import-root = \"src\"\n"));
  EXPECT_THAT(text, Not(HasSubstr("[[packages]]")));
  const auto again = parse_lock(text, "pylock.trail.toml");
  ASSERT_TRUE(again.has_value()) << base::to_text(again.error());
  ASSERT_EQ(again->packages.size(), 1U);
  EXPECT_EQ(again->packages[0].import_root, "src");
  EXPECT_EQ(to_toml(*again), text);
}

TEST_F(OwnCode, an_import_path_that_leaves_the_workspace_is_refused) {
  m_lock.packages = {import_path("src")};
  std::string text = to_toml(m_lock);
  text.replace(text.find("\"src\""), 5, "\"../..\"");
  EXPECT_THAT(parse_lock(text, "pylock.trail.toml").error().message, HasSubstr("import-root"));
}

TEST_F(OwnCode, the_wheel_of_an_import_path_needs_no_build) {
  base::SilentReporter reporter;
  const SourceBuild build{
      .suite = "bookworm", .base = "/nowhere", .lock_directory = m_folder, .state_root = m_folder, .indexes = {}};
  const auto wheel = build_source_wheel(import_path("src"), build, {}, reporter);
  ASSERT_TRUE(wheel.has_value()) << base::to_text(wheel.error());
  const auto shown = base::run_process({.argv = {"python3", "-c",
                                                 "import sys, zipfile\n"
                                                 "wheel = zipfile.ZipFile(sys.argv[1])\n"
                                                 "print(sorted(wheel.namelist()))\n"
                                                 "print(wheel.read('startrail-workspace-src.pth'))\n",
                                                 wheel->string()}});
  ASSERT_TRUE(shown && shown->succeeded());
  EXPECT_THAT(shown->output, HasSubstr("b'/workspace/src\\n'"));
  EXPECT_THAT(shown->output, HasSubstr("startrail_workspace_src-0.dist-info/RECORD"));
  EXPECT_EQ(build_source_wheel(import_path("src"), build, {}, reporter).value(), *wheel);
}

}  // namespace
}  // namespace startrail::lock
