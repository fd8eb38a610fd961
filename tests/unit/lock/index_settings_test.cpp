#include "lock/index_settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"

namespace startrail::lock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class IndexSettings : public testing::Test {
 protected:
  void SetUp() override { m_root = base::make_temporary_directory(fs::temp_directory_path(), "index").value(); }
  void TearDown() override { (void)base::remove_tree(m_root); }
  void write(const char* file, std::string_view text) {
    ASSERT_TRUE(base::make_directories((m_root / file).parent_path()).has_value());
    ASSERT_TRUE(base::write_file_atomic(m_root / file, text).has_value());
  }
  IndexConfiguration configuration(base::Environment environment = {}) {
    environment.try_emplace("HOME", (m_root / "home").string());
    return index_configuration(environment, m_root);
  }
  fs::path m_root;
};

TEST_F(IndexSettings, nothing_configured_gives_pips_own_default) {
  const auto found = configuration();
  EXPECT_FALSE(found.default_index.empty());
  EXPECT_THAT(found.extra_indexes, IsEmpty());
}

TEST_F(IndexSettings, pip_conf_is_read_and_variables_win_over_it) {
  write("etc/pip.conf",
        "[global]\nindex-url = https://a.example/simple\nextra-index-url =\n    https://b.example/simple\n    "
        "https://c.example/simple\n");
  EXPECT_EQ(configuration().default_index, "https://a.example/simple");
  EXPECT_THAT(configuration().extra_indexes, ElementsAre("https://b.example/simple", "https://c.example/simple"));
  EXPECT_EQ(configuration().search, IndexSearch::best_match);
  EXPECT_EQ(configuration({{"PIP_INDEX_URL", "https://d.example/simple"}}).default_index, "https://d.example/simple");
}

TEST_F(IndexSettings, the_users_pip_conf_wins_over_the_systems) {
  write("etc/pip.conf", "[global]\nindex_url = https://a.example/simple\n");
  write("home/.config/pip/pip.conf", "[install]\nindex-url: https://b.example/simple\n");
  EXPECT_EQ(configuration().default_index, "https://b.example/simple");
}

TEST_F(IndexSettings, pip_config_file_dev_null_switches_files_off) {
  write("etc/pip.conf", "[global]\nindex-url = https://a.example/simple\n");
  EXPECT_NE(configuration({{"PIP_CONFIG_FILE", "/dev/null"}}).default_index, "https://a.example/simple");
}

TEST_F(IndexSettings, uv_wins_over_pip) {
  write("etc/pip.conf", "[global]\nindex-url = https://a.example/simple\n");
  write("home/.config/uv/uv.toml",
        "[[index]]\nname = \"x\"\nurl = \"https://x.example/simple\"\ndefault = true\n[[index]]\nurl = "
        "\"https://y.example/simple\"\n");
  EXPECT_EQ(configuration().default_index, "https://x.example/simple");
  EXPECT_THAT(configuration().extra_indexes, ElementsAre("https://y.example/simple"));
  EXPECT_EQ(configuration().search, IndexSearch::first_index);
  const auto named =
      configuration({{"UV_INDEX", "mine=https://z.example/simple"}, {"UV_DEFAULT_INDEX", "https://w.example/simple"}});
  EXPECT_EQ(named.default_index, "https://w.example/simple");
  EXPECT_THAT(named.extra_indexes, ElementsAre("https://z.example/simple"));
}

TEST_F(IndexSettings, a_broken_uv_toml_says_nothing) {
  write("etc/uv/uv.toml", "[[index\n");
  EXPECT_FALSE(configuration().default_index.empty());
}

TEST(IndexPage, html_gives_files_with_hash_python_and_yank) {
  const auto files = parse_index_html(
      "<html><a href=\"../../p/six-1.0-py3-none-any.whl#sha256=ab12\" data-requires-python=\"&gt;=3.9\">six</a><br/>"
      "<a data-yanked=\"broken\" href='/p/six-0.9.tar.gz'>six</a><a name=x>none</a></html>",
      "https://i.example/simple/six/");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].artifact.url, "https://i.example/p/six-1.0-py3-none-any.whl");
  EXPECT_EQ(files[0].artifact.filename, "six-1.0-py3-none-any.whl");
  EXPECT_EQ(files[0].artifact.sha256, "ab12");
  EXPECT_EQ(files[0].requires_python, ">=3.9");
  EXPECT_EQ(files[0].yanked, Yanked::no);
  EXPECT_EQ(files[1].artifact.url, "https://i.example/p/six-0.9.tar.gz");
  EXPECT_EQ(files[1].yanked, Yanked::yes);
}

TEST(IndexPage, json_gives_the_same) {
  const auto files = parse_index_json(
      R"({"files":[{"filename":"six-1.0-py3-none-any.whl","url":"../../p/six-1.0-py3-none-any.whl","hashes":{"sha256":"ab12"},)"
      R"("size":7,"yanked":"broken","requires-python":null},{"filename":3}]})",
      "https://i.example/simple/six/");
  ASSERT_TRUE(files.has_value());
  ASSERT_EQ(files->size(), 1U);
  EXPECT_EQ(files->front().artifact.size.count, 7U);
  EXPECT_EQ(files->front().yanked, Yanked::yes);
  EXPECT_EQ(files->front().artifact.url, "https://i.example/p/six-1.0-py3-none-any.whl");
}

TEST(IndexPage, broken_pages_are_errors_or_empty_never_crashes) {
  EXPECT_FALSE(parse_index_json("{", "https://i.example/").has_value());
  EXPECT_FALSE(parse_index_json("[]", "https://i.example/").has_value());
  EXPECT_TRUE(parse_index_html("<a href=", "https://i.example/").empty());
  EXPECT_TRUE(parse_index_html("<a href='x", "https://i.example/").empty());
}

TEST(IndexPage, addresses_are_made_absolute) {
  EXPECT_EQ(absolute_url("https://i.example/simple/six/", "six.whl"), "https://i.example/simple/six/six.whl");
  EXPECT_EQ(absolute_url("https://i.example/simple/six/", "/p/six.whl"), "https://i.example/p/six.whl");
  EXPECT_EQ(absolute_url("https://i.example/simple/six/", "//j.example/six.whl"), "https://j.example/six.whl");
  EXPECT_EQ(absolute_url("https://i.example/simple/six/", "https://k.example/six.whl"), "https://k.example/six.whl");
  EXPECT_EQ(absolute_url("https://i.example/a/b/", "../../../../six.whl"), "https://i.example/six.whl");
  EXPECT_EQ(absolute_url("https://i.example", "six.whl"), "https://i.example/six.whl");
}

}  // namespace
}  // namespace startrail::lock
