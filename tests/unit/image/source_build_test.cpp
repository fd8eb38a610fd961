#include "image/source_build.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/process.hpp"

namespace startrail::image {
namespace {

using testing::HasSubstr;

class SourceBuilding : public testing::Test {
 protected:
  void SetUp() override {
    m_root = base::make_temporary_directory(fs::temp_directory_path(), "sources").value();
    for (const char* folder : {"project", "state", "out"})
      ASSERT_TRUE(base::make_directories(m_root / folder).has_value());
  }
  void TearDown() override { (void)base::remove_tree(m_root); }

  void write(const fs::path& file, std::string_view text) {
    ASSERT_TRUE(base::make_directories((m_root / "project" / file).parent_path()).has_value());
    ASSERT_TRUE(base::write_file_atomic(m_root / "project" / file, text).has_value());
  }

  Result<fs::path> build(const lock::LockedPackage& package) {
    base::SilentReporter reporter;
    const auto machine = machine::survey({}, m_root / "state", machine::Depth::quick);
    return build_wheel(package,
                       {.suite = "bookworm",
                        .base = m_base,
                        .lock_directory = m_root / "project",
                        .state_root = m_root / "state",
                        .output = m_root / "out"},
                       machine, reporter);
  }

  // Real builds need a base with Python and a compiler, and the program whose `contain` verb starts containers.
  bool can_build() {
    const auto base = base_root();
    const fs::path program = fs::path(STARTRAIL_BUILD_DIR) / "trail";
    if (!base || !fs::exists(program)) return false;
    m_base = *base;
    ::setenv("STARTRAIL_PROGRAM", program.c_str(), 0);
    ::setenv("STARTRAIL_INIT", (fs::path(STARTRAIL_BUILD_DIR) / "trail-init").c_str(), 0);
    return true;
  }

  // The one that the build's other tests made, unless another is named.
  static std::optional<fs::path> base_root() {
    if (auto named = base::environment_variable("STARTRAIL_TEST_BASE")) return *named;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(fs::path(STARTRAIL_BUILD_DIR) / "test-home/store/bases", none))
      if (fs::exists(entry.path() / "root/usr/bin/python3", none)) return entry.path() / "root";
    return std::nullopt;
  }

  fs::path m_root;
  fs::path m_base = "/nonexistent";
};

constexpr const char* k_skipped =
    "needs a base with python3 and build-essential (`test_base`, or STARTRAIL_TEST_BASE=ROOT) and the built `trail`";

lock::LockedPackage own(project::Editable editable) {
  return {
      .name = "own", .version = "1.0", .kind = lock::PackageKind::directory, .directory = ".", .editable = editable};
}

TEST_F(SourceBuilding, a_source_that_is_not_the_locked_one_is_refused_before_it_is_opened) {
  ::setenv("STARTRAIL_UV", "/bin/true", 1);
  write("thing-1.0.tar.gz", "not what was locked");
  lock::LockedPackage package{.name = "thing", .version = "1.0", .kind = lock::PackageKind::sdist};
  package.artifact = {.filename = "thing-1.0.tar.gz", .path = "thing-1.0.tar.gz", .sha256 = base::sha256_hex("locked")};
  const auto wheel = build(package);
  ::unsetenv("STARTRAIL_UV");
  ASSERT_FALSE(wheel.has_value());
  EXPECT_EQ(wheel.error().code, ErrorCode::hash_mismatch);
  EXPECT_THAT(wheel.error().message, HasSubstr("thing-1.0.tar.gz"));
  EXPECT_TRUE(fs::is_empty(m_root / "out"));
}

TEST_F(SourceBuilding, a_wheel_is_not_built) {
  EXPECT_FALSE(build({.name = "thing", .version = "1.0", .kind = lock::PackageKind::wheel}).has_value());
}

TEST_F(SourceBuilding, an_editable_leads_to_the_workspace_and_keeps_its_scripts) {
  if (!can_build()) GTEST_SKIP() << k_skipped;
  write("pyproject.toml",
        "[build-system]\nrequires = [\"setuptools\"]\nbuild-backend = \"setuptools.build_meta\"\n"
        "[project]\nname = \"own\"\nversion = \"1.0\"\n[project.scripts]\nown-train = \"own.main:run\"\n");
  write("src/own/__init__.py", "");
  write("src/own/main.py", "def run(): pass\n");
  const auto wheel = build(own(project::Editable::yes));
  ASSERT_TRUE(wheel.has_value()) << base::to_text(wheel.error()) << wheel.error().detail;
  const auto listed = base::run_process({.argv = {"unzip", "-p", wheel->string()}});
  ASSERT_TRUE(listed.has_value());
  EXPECT_THAT(listed->output, HasSubstr("/workspace/src"));
  EXPECT_THAT(listed->output, HasSubstr("own-train = own.main:run"));
  EXPECT_FALSE(fs::exists(m_root / "project/src/own.egg-info")) << "the user's folder stays as it was";
}

TEST_F(SourceBuilding, a_source_that_does_not_compile_tells_the_compilers_words) {
  if (!can_build()) GTEST_SKIP() << k_skipped;
  write("setup.py",
        "from setuptools import Extension, setup\nsetup(name='own', version='1.0', ext_modules=[Extension('own', "
        "['own.c'])])\n");
  write("own.c", "#include <no_such_header.h>\n");
  const auto wheel = build(own(project::Editable::no));
  ASSERT_FALSE(wheel.has_value());
  EXPECT_EQ(wheel.error().code, ErrorCode::refused);
  EXPECT_THAT(wheel.error().message, HasSubstr("no_such_header.h"));
}

TEST_F(SourceBuilding, a_c_extension_is_built_once_and_kept) {
  if (!can_build()) GTEST_SKIP() << k_skipped;
  write("setup.py",
        "import pkg_resources\nfrom setuptools import Extension, setup\n"
        "setup(name='own', version='1.0', ext_modules=[Extension('own', ['own.c'])])\n");
  write("own.c",
        "#include <Python.h>\nstatic struct PyModuleDef m = {PyModuleDef_HEAD_INIT, \"own\", 0, -1, 0};\n"
        "PyMODINIT_FUNC PyInit_own(void) { return PyModule_Create(&m); }\n");
  const auto wheel = build(own(project::Editable::no));
  ASSERT_TRUE(wheel.has_value()) << base::to_text(wheel.error()) << wheel.error().detail;
  EXPECT_THAT(wheel->filename().string(), testing::AllOf(HasSubstr("own-1.0-cp"), HasSubstr("linux_x86_64.whl")));
  const std::string digest = base::sha256_file_hex(*wheel).value_or("");
  const auto again = build(own(project::Editable::no));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(base::sha256_file_hex(*again).value_or("unreadable"), digest);
}

}  // namespace
}  // namespace startrail::image
