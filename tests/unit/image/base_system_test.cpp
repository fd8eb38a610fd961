#include "image/base_system.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "image/image.hpp"

namespace startrail::image {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

class Folder : public ::testing::Test {
 protected:
  void SetUp() override { m_folder = *base::make_temporary_directory(fs::temp_directory_path(), "startrail-base"); }
  void TearDown() override { EXPECT_TRUE(base::remove_tree(m_folder)); }
  void write(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    ASSERT_TRUE(base::make_directories((m_folder / name).parent_path()));
    ASSERT_TRUE(base::write_file_atomic(m_folder / name, content, mode));
  }
  fs::path m_folder;
};

// ---- recipes ----

TEST(BaseRecipe, is_the_same_whatever_the_order_of_the_packages) {
  const auto one = base_recipe("bookworm", {"ffmpeg", "curl"});
  const auto other = base_recipe("bookworm", {"curl", "ffmpeg", "curl"});
  EXPECT_EQ(one.digest, other.digest);
  EXPECT_EQ(one.packages, other.packages);
  EXPECT_TRUE(std::ranges::is_sorted(one.packages));
}

TEST(BaseRecipe, differs_with_suite_and_packages) {
  EXPECT_NE(base_recipe("bookworm", {}).digest, base_recipe("trixie", {}).digest);
  EXPECT_NE(base_recipe("bookworm", {}).digest, base_recipe("bookworm", {"ffmpeg"}).digest);
}

TEST(BaseRecipe, names_libraries_as_each_suite_does) {
  EXPECT_THAT(base_recipe("trixie", {}).packages, Contains("libglib2.0-0t64"));
  EXPECT_THAT(base_recipe("trixie", {}).packages, Not(Contains("python3-distutils")));
  EXPECT_THAT(base_recipe("bookworm", {}).packages,
              IsSupersetOf({"libglib2.0-0", "python3-distutils", "gcc", "python3-dev"}));
}

// ---- calling mmdebstrap ----

TEST(MmdebstrapArguments, the_software_renderer_is_left_out_unless_system_packages_are_asked_for) {
  const BaseBuild build{.mode = "root", .target = "/x/root", .sources = {}};
  EXPECT_THAT(mmdebstrap_arguments(base_recipe("bookworm", {}), build),
              Contains("--dpkgopt=path-exclude=/usr/lib/*/libLLVM*"));
  EXPECT_THAT(mmdebstrap_arguments(base_recipe("bookworm", {"mesa-utils"}), build),
              Not(Contains("--dpkgopt=path-exclude=/usr/lib/*/libLLVM*")));
}

TEST(MmdebstrapArguments, an_archive_is_asked_for_where_ids_are_not_the_callers) {
  const auto recipe = base_recipe("bookworm", {});
  EXPECT_THAT(mmdebstrap_arguments(recipe, {.mode = "unshare", .target = "/x/root.tar", .sources = {}}),
              Contains("--format=tar"));
  EXPECT_THAT(mmdebstrap_arguments(recipe, {.mode = "root", .target = "/x/root", .sources = {}}),
              Contains("--format=directory"));
}

TEST_F(Folder, the_hosts_sources_are_used_for_its_own_suite_only) {
  write("etc/os-release", "PRETTY_NAME=\"Debian\"\nID=debian\nVERSION_CODENAME=bookworm\n");
  write("etc/apt/sources.list.d/debian.sources",
        "Types: deb\nSuites: bookworm\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n");
  write("etc/apt/sources.list", "deb [signed-by=/etc/vendor.gpg] http://mirror.invalid bookworm main\n");
  EXPECT_EQ(host_sources(m_folder, "bookworm"), std::vector{m_folder / "etc/apt/sources.list.d/debian.sources"});
  EXPECT_TRUE(host_sources(m_folder, "trixie").empty());
}

TEST_F(Folder, sources_of_another_distribution_are_not_used) {
  write("etc/os-release", "NAME=x\nID=ubuntu\nVERSION_CODENAME=bookworm\n");
  write("etc/apt/sources.list", "deb http://mirror.invalid bookworm main\n");
  EXPECT_TRUE(host_sources(m_folder, "bookworm").empty());
}

Error error_for(std::string_view messages) {
  return mmdebstrap_error(messages, base_recipe("bookworm", {"nope"}), "/log");
}

TEST(MmdebstrapError, an_unknown_package_is_refused_by_name) {
  const auto error = error_for("I: running apt-get update...\nE: Unable to locate package nope\nE: apt-get failed\n");
  EXPECT_EQ(error.code, ErrorCode::refused);
  EXPECT_EQ(error.message, "Debian bookworm has no package `nope`");
  EXPECT_THAT(error.hints.at(0), HasSubstr("system-packages"));
  EXPECT_EQ(error_for("E: Package 'nope' has no installation candidate\n").message,
            "Debian bookworm has no package `nope`");
}

TEST(MmdebstrapError, the_first_cause_is_told_not_the_last_consequence) {
  EXPECT_THAT(error_for("E: first\nE: second\n").context, Contains("mmdebstrap: first"));
}

TEST(MmdebstrapError, network_and_disk_are_told_apart) {
  EXPECT_EQ(error_for("E: Failed to fetch http://x  Temporary failure resolving 'x'\n").code, ErrorCode::network);
  EXPECT_EQ(error_for("dpkg: error: failed to write (No space left on device)\nE: Failed to fetch\n").code,
            ErrorCode::no_space);
  EXPECT_EQ(error_for("something else\n").code, ErrorCode::internal);
}

// ---- trees ----

TEST_F(Folder, a_digest_depends_on_content_modes_and_links_only) {
  write("tree/a", "content");
  write("tree/run", "x", 0755);
  fs::create_symlink("a", m_folder / "tree/link");
  const auto before = digest_tree(m_folder / "tree");
  ASSERT_TRUE(before);
  EXPECT_EQ(before->size.count, 8U);
  fs::last_write_time(m_folder / "tree/a", fs::file_time_type::clock::now() - std::chrono::hours(100));
  EXPECT_EQ(digest_tree(m_folder / "tree")->sha256, before->sha256);
  ASSERT_EQ(::chmod((m_folder / "tree/a").c_str(), 0600), 0);
  EXPECT_NE(digest_tree(m_folder / "tree")->sha256, before->sha256);
  ASSERT_EQ(::chmod((m_folder / "tree/a").c_str(), 0644), 0);
  EXPECT_EQ(digest_tree(m_folder / "tree")->sha256, before->sha256);
  write("tree/a", "Content");
  EXPECT_NE(digest_tree(m_folder / "tree")->sha256, before->sha256);
}

TEST_F(Folder, normalising_takes_out_rights_and_traces) {
  write("etc/shadow", "root:secret:1\n");
  write("etc/resolv.conf", "nameserver 192.0.2.1\n");
  write("var/log/apt/history.log", "today\n");
  write("usr/bin/su", "program", 04755);
  write("usr/bin/wall", "program", 02755);
  write("usr/share/open", "data", 0666);
  ASSERT_TRUE(base::make_directories(m_folder / "tmp/left"));
  ASSERT_EQ(::chmod((m_folder / "tmp").c_str(), 01777), 0);
  ASSERT_EQ(::chmod((m_folder / "usr/bin/su").c_str(), 04755), 0);
  ASSERT_TRUE(normalise_base(m_folder));
  for (const char* name : {"etc/shadow", "etc/resolv.conf", "var/log/apt", "tmp/left"})
    EXPECT_FALSE(fs::exists(m_folder / name)) << name;
  const auto mode = [&](const char* name) { return static_cast<unsigned>(fs::status(m_folder / name).permissions()); };
  EXPECT_EQ(mode("usr/bin/su"), 0755U);
  EXPECT_EQ(mode("usr/bin/wall"), 0755U);
  EXPECT_EQ(mode("usr/share/open"), 0644U);
  EXPECT_EQ(mode("tmp"), 01777U);
  for (const char* name : {"workspace", "mnt/datasets", "mnt/personal", "mnt/temp", "opt/env", ".trail", "home"})
    EXPECT_TRUE(fs::is_directory(m_folder / name)) << name;
}

TEST_F(Folder, installed_packages_are_read_from_dpkgs_status) {
  write("var/lib/dpkg/status",
        "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\n\nPackage: gcc\nVersion: 4:12.2.0-3\n");
  const auto packages = installed_packages(m_folder);
  EXPECT_EQ(base::string_at(packages, "libc6"), "2.36-9");
  EXPECT_EQ(base::string_at(packages, "gcc"), "4:12.2.0-3");
}

void tar(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{"tar"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const auto result = base::run_process(
      {.argv = argv, .environment = {}, .directory = {}, .input = {}, .timeout = {}, .on_error_line = {}});
  ASSERT_TRUE(result && result->succeeded()) << (result ? result->errors : "");
}

TEST_F(Folder, unpacking_keeps_times_links_and_modes_and_drops_devices) {
  write("in/usr/lib/module.py", "x = 1\n");
  fs::create_hard_link(m_folder / "in/usr/lib/module.py", m_folder / "in/usr/lib/same.py");
  fs::create_symlink("usr/lib", m_folder / "in/lib");
  ASSERT_EQ(::mkfifo((m_folder / "in/pipe").c_str(), 0600), 0);
  fs::last_write_time(m_folder / "in/usr/lib/module.py", fs::file_time_type::clock::now() - std::chrono::hours(1000));
  tar({"-C", (m_folder / "in").string(), "-cf", (m_folder / "base.tar").string(), "."});
  ASSERT_TRUE(unpack_base(m_folder / "base.tar", m_folder / "out"));
  EXPECT_EQ(fs::hard_link_count(m_folder / "out/usr/lib/same.py"), 2U);
  EXPECT_EQ(fs::read_symlink(m_folder / "out/lib"), "usr/lib");
  EXPECT_FALSE(fs::exists(m_folder / "out/pipe"));
  const auto difference =
      fs::last_write_time(m_folder / "out/usr/lib/module.py") - fs::last_write_time(m_folder / "in/usr/lib/module.py");
  EXPECT_LT(std::chrono::abs(difference), std::chrono::seconds(2));
}

TEST_F(Folder, an_archive_that_climbs_out_of_its_root_is_refused) {
  write("in/file", "x");
  tar({"-C", (m_folder / "in").string(), "--transform=s,file,../../escaped,", "-P", "-cf",
       (m_folder / "base.tar").string(), "file"});
  const auto result = unpack_base(m_folder / "base.tar", m_folder / "out/root");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::unsafe_path);
  EXPECT_FALSE(fs::exists(m_folder / "escaped"));
}

TEST_F(Folder, a_cut_archive_is_corrupt) {
  write("in/file", std::string(100000, 'x'));
  tar({"-C", (m_folder / "in").string(), "-cf", (m_folder / "base.tar").string(), "."});
  fs::resize_file(m_folder / "base.tar", 50000);
  const auto result = unpack_base(m_folder / "base.tar", m_folder / "out");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::corrupt);
}

// ---- the store ----

TEST_F(Folder, a_base_whose_description_is_missing_is_not_found) {
  const auto recipe = base_recipe("bookworm", {});
  const std::string digest(64, 'a');
  write("bases/recipe-" + recipe.digest, digest + "\n");
  ASSERT_TRUE(base::make_directories(m_folder / "bases" / digest / "root"));
  EXPECT_FALSE(find_base(m_folder, recipe.digest));
  write("bases/" + digest + "/meta.json", Json{{"digest", digest}, {"size", 5}}.dump());
  const auto found = find_base(m_folder, recipe.digest);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->root, m_folder / "bases" / digest / "root");
  EXPECT_EQ(found->size.count, 5U);
}

// The base that all suites share; made by the first of them.
std::optional<BaseSystem> shared_base() {
  const fs::path home =
      base::environment_variable("STARTRAIL_TEST_HOME").value_or(std::string(STARTRAIL_BUILD_DIR) + "/test-home");
  base::SilentReporter reporter;
  auto made = ensure_base(home / "store", base_recipe("bookworm", {}), reporter);
  if (made) return *made;
  std::fprintf(stderr, "skipped: no base can be made here: %s\n", to_text(made.error()).c_str());
  return std::nullopt;
}

TEST(RealBase, maintainer_scripts_have_run_and_nothing_is_setuid) {
  const auto made = shared_base();
  if (!made) GTEST_SKIP();
  for (const char* name :
       {"etc/passwd", "etc/ssl/certs/ca-certificates.crt", "etc/ld.so.cache", "usr/bin/python3", "usr/bin/gcc",
        "usr/bin/git", "usr/include/python3.11/Python.h", "usr/lib/python3.11/__pycache__/os.cpython-311.pyc"})
    EXPECT_TRUE(fs::exists(made->root / name)) << name;
  int privileged = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(made->root, fs::directory_options::skip_permission_denied)) {
    if (entry.is_symlink()) continue;
    const auto mode = static_cast<unsigned>(entry.status().permissions());
    if ((mode & 06000U) != 0 || (entry.is_regular_file() && (mode & 022U) != 0)) ++privileged;
  }
  EXPECT_EQ(privileged, 0);
}

TEST(RealBase, its_digest_is_that_of_its_content) {
  const auto made = shared_base();
  if (!made) GTEST_SKIP();
  const auto digest = digest_tree(made->root);
  ASSERT_TRUE(digest);
  EXPECT_EQ(digest->sha256, made->digest);
  EXPECT_EQ(digest->size, made->size);
}

TEST_F(Folder, a_package_that_debian_lacks_is_refused_and_leaves_nothing) {
  if (!base::find_program("mmdebstrap")) GTEST_SKIP() << "mmdebstrap is not installed";
  base::SilentReporter reporter;
  const auto recipe = base_recipe("bookworm", {"no-such-package-anywhere"});
  const auto made = ensure_base(m_folder, recipe, reporter);
  ASSERT_FALSE(made);
  if (made.error().code == ErrorCode::network) GTEST_SKIP() << "no Debian mirror can be reached";
  EXPECT_EQ(made.error().code, ErrorCode::refused) << to_text(made.error());
  EXPECT_THAT(made.error().message, HasSubstr("no-such-package-anywhere"));
  EXPECT_FALSE(find_base(m_folder, recipe.digest));
  EXPECT_FALSE(fs::exists(m_folder / "bases" / ("staging-" + recipe.digest)));
}

TEST_F(Folder, an_unreachable_mirror_is_a_network_error) {
  if (!base::find_program("mmdebstrap")) GTEST_SKIP() << "mmdebstrap is not installed";
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  base::SilentReporter reporter;
  const auto made = ensure_base(m_folder, base_recipe("bookworm", {}), reporter);
  ::unsetenv("http_proxy");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::network) << to_text(made.error());
}

}  // namespace
}  // namespace startrail::image
