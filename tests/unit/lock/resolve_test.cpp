// Real resolutions with the configured package index; skipped, with the reason, where it can't be reached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.hpp"
#include "base/process.hpp"
#include "lock/lock.hpp"
#include "lock/lock_text.hpp"
#include "project/requirements.hpp"

namespace startrail::lock {
namespace {

using testing::Contains;
using testing::HasSubstr;

class Resolving : public testing::Test {
 protected:
  // One state folder for all tests of this process, so that uv is fetched once.
  static void SetUpTestSuite() {
    s_state = base::make_temporary_directory(fs::temp_directory_path(), "resolving").value();
    base::SilentReporter reporter;
    const auto uv = ensure_uv(s_state, reporter);
    s_unreachable = uv ? "" : base::to_text(uv.error());
  }
  static void TearDownTestSuite() { (void)base::remove_tree(s_state); }

  void SetUp() override {
    if (!s_unreachable.empty()) GTEST_SKIP() << "no uv from the package index: " << s_unreachable;
    m_folder = base::make_temporary_directory(s_state, "project").value();
  }

  void write(const std::string& file, std::string_view text) {
    ASSERT_TRUE(base::write_file_atomic(m_folder / file, text).has_value());
  }

  Result<Lock> resolve_for(const std::vector<std::string>& pythons, catalog::Choice choice = {}) {
    const project::Requirements needs = TRY(project::read(m_folder, {}));
    for (const auto& python : pythons)
      choice.pythons.push_back({.minor = python, .suite = python == "3.9" ? "bullseye" : "bookworm", .remark = ""});
    ResolveOptions options;
    options.state_root = s_state;
    options.base.recipe_digest = [](const std::string& suite, const auto&) { return "recipe of " + suite; };
    options.base.ensure = [](const std::string&, const auto&, Reporter&) -> Result<fs::path> {
      return base::fail(ErrorCode::not_found, "no base in this test");
    };
    base::SilentReporter reporter;
    return lock::resolve(needs, choice, {}, options, reporter);
  }

  static const LockedPackage* find(const Lock& lock, std::string_view name) {
    const auto found = std::ranges::find(lock.packages, name, &LockedPackage::name);
    return found == lock.packages.end() ? nullptr : &*found;
  }

  static inline fs::path s_state;
  static inline std::string s_unreachable;
  fs::path m_folder;
};

TEST_F(Resolving, plain_requirements_give_a_lock_that_reads_back) {
  write("requirements.txt", "packaging<24\nsix\n");
  const auto lock = resolve_for({"3.11"});
  ASSERT_TRUE(lock.has_value()) << base::to_text(lock.error());
  ASSERT_NE(find(*lock, "packaging"), nullptr);
  EXPECT_EQ(find(*lock, "packaging")->version, "23.2");
  EXPECT_EQ(find(*lock, "packaging")->artifact.sha256.size(), 64U);
  EXPECT_EQ(lock->base_recipe, "recipe of bookworm");
  const auto again = parse_lock(to_toml(*lock), "pylock.trail.toml");
  ASSERT_TRUE(again.has_value()) << base::to_text(again.error());
  EXPECT_EQ(to_toml(*again), to_toml(*lock));
}

TEST_F(Resolving, earlier_pins_hold_until_they_can_not) {
  write("requirements.txt", "packaging<24\n");
  const auto first = resolve_for({"3.11"});
  ASSERT_TRUE(first.has_value()) << base::to_text(first.error());
  ASSERT_TRUE(write_lock(*first, m_folder / k_lock_file_name).has_value());
  write("requirements.txt", "packaging\n");
  EXPECT_EQ(find(resolve_for({"3.11"}).value(), "packaging")->version, "23.2");
  write("requirements.txt", "packaging>=24\n");
  EXPECT_NE(find(resolve_for({"3.11"}).value(), "packaging")->version, "23.2");
}

TEST_F(Resolving, the_next_python_is_taken_when_the_first_has_no_wheel) {
  write("requirements.txt", "opencv-python==4.2.0.34\n");
  const auto refused = resolve_for({"3.11", "3.9"});
  ASSERT_FALSE(refused.has_value());
  write("requirements.txt", "tokenizers==0.10.3\n");
  const auto lock = resolve_for({"3.11", "3.9"});
  ASSERT_TRUE(lock.has_value()) << base::to_text(lock.error());
  EXPECT_EQ(lock->python, "3.9");
  EXPECT_THAT(lock->notes, Contains(HasSubstr("Python 3.9 was taken instead of 3.11")));
}

TEST_F(Resolving, a_clash_names_both_lines_and_a_way_out_that_resolves) {
  write("requirements.txt", "tensorflow==2.15.0\nnumpy==2.0.0\n");
  const auto lock = resolve_for({"3.11"});
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().code, ErrorCode::refused);
  EXPECT_THAT(lock.error().message, HasSubstr("tensorflow==2.15.0 needs numpy>=1.23.5,<2.0.0"));
  EXPECT_THAT(lock.error().context, Contains("numpy==2.0.0 is read from requirements.txt:2"));
  EXPECT_THAT(lock.error().hints, Contains(HasSubstr("instead of numpy==2.0.0 (requirements.txt:2)")));
}

TEST_F(Resolving, a_clash_with_a_source_shows_without_building_it) {
  write("requirements.txt", "antlr4-python3-runtime==4.8\nhydra-core==1.3.2\n");
  const auto lock = resolve_for({"3.11"});
  ASSERT_FALSE(lock.has_value());
  EXPECT_THAT(lock.error().message, HasSubstr("antlr4-python3-runtime==4.8 is asked for"));
  EXPECT_THAT(lock.error().context, Contains("antlr4-python3-runtime==4.8 is read from requirements.txt:1"));
}

TEST_F(Resolving, build_code_of_an_editable_never_runs_on_this_host) {
  const fs::path mark = m_folder / "ran";
  write("setup.py", "open(" + ("'" + mark.string() + "'") +
                        ", 'w').close()\nfrom setuptools import setup\nsetup(name='own', version='1')\n");
  write("requirements.txt", "-e .\nsix\n");
  const auto lock = resolve_for({"3.11"});
  ASSERT_FALSE(lock.has_value()) << "this test has no base to build on";
  EXPECT_THAT(lock.error().message, HasSubstr("no base in this test"));
  EXPECT_FALSE(fs::exists(mark));
}

TEST_F(Resolving, numpy_2_is_kept_from_wheels_that_are_built_for_numpy_1) {
  write("requirements.txt", "pandas==1.5.3\n");
  const auto lock = resolve_for({"3.11"});
  ASSERT_TRUE(lock.has_value()) << base::to_text(lock.error());
  EXPECT_THAT(find(*lock, "numpy")->version, testing::StartsWith("1."));
  EXPECT_THAT(lock->notes, Contains(HasSubstr("numpy<2 was added: pandas 1.5.3")));
}

TEST_F(Resolving, a_project_that_no_index_has_is_named) {
  write("requirements.txt", "startrail-has-no-such-package\n");
  const auto lock = resolve_for({"3.11", "3.9"});
  ASSERT_FALSE(lock.has_value());
  EXPECT_THAT(lock.error().message, HasSubstr("startrail-has-no-such-package"));
  EXPECT_THAT(lock.error().context, Contains(HasSubstr("requirements.txt:1")));
}

TEST_F(Resolving, an_unreachable_repository_is_a_network_refusal) {
  write("requirements.txt", "thing @ git+https://nowhere.invalid/thing.git\n");
  const auto lock = resolve_for({"3.11"});
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().code, ErrorCode::network);
  EXPECT_THAT(lock.error().message, HasSubstr("nowhere.invalid"));
}

TEST_F(Resolving, a_lock_of_uv_is_taken_as_it_is) {
  write("pyproject.toml",
        "[project]\nname = \"own\"\nversion = \"1\"\nrequires-python = \">=3.9\"\ndependencies = [\"six==1.16.0\"]\n");
  base::SilentReporter reporter;
  const auto uv = ensure_uv(s_state, reporter);
  const auto made = base::run_process({.argv = {uv->string(), "lock", "--quiet"}, .directory = m_folder});
  ASSERT_TRUE(made && made->succeeded()) << made->errors;
  const auto lock = resolve_for({"3.11"});
  ASSERT_TRUE(lock.has_value()) << base::to_text(lock.error());
  ASSERT_NE(find(*lock, "six"), nullptr);
  EXPECT_EQ(find(*lock, "six")->version, "1.16.0");
  EXPECT_THAT(lock->notes, Contains(HasSubstr("uv.lock")));
}

TEST_F(Resolving, the_map_of_import_names_is_fetched) {
  base::SilentReporter reporter;
  const auto map = ensure_module_map(s_state, reporter);
  ASSERT_TRUE(map.has_value()) << base::to_text(map.error());
  EXPECT_NE(base::read_file(map->mapping).value().find("\nyaml:PyYAML\n"), std::string::npos);
  EXPECT_TRUE(fs::exists(map->standard_library));
}

}  // namespace
}  // namespace startrail::lock
