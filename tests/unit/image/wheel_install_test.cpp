// Honest wheels: everything that the PyPA specifications ask of an installer.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "base/json.hpp"
#include "image/entry_points.hpp"
#include "image/wheel_finish.hpp"
#include "store_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class WheelInstall : public StoreFixture {
 protected:
  static mode_t mode(const fs::path& file) {
    struct stat status{};
    return ::lstat(file.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  fs::path installed(const WheelBuilder& wheel) {
    const WheelSource from = source(wheel);
    const auto done = install({from});
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    return tree(from);
  }
};

TEST_F(WheelInstall, files_are_read_only_and_keep_their_exec_bit) {
  WheelBuilder wheel;
  wheel.add("demo/plain.py", "x = 1\n").add("demo/tool", "#!/bin/sh\n", 0100755).add("demo/empty", "");
  const fs::path tree = installed(wheel);
  EXPECT_EQ(content(tree / "site/demo/plain.py"), "x = 1\n");
  EXPECT_EQ(content(tree / "site/demo/empty"), "");
  EXPECT_EQ(mode(tree / "site/demo/plain.py"), 0444U);
  EXPECT_EQ(mode(tree / "site/demo/tool"), 0555U);
  EXPECT_EQ(mode(tree / "site/demo"), 0755U);
}

TEST_F(WheelInstall, modes_do_not_depend_on_the_umask) {
  if (!k_may_fork) GTEST_SKIP() << "ThreadSanitizer cannot follow a forked child that starts threads";
  const mode_t before = ::umask(0077);
  WheelBuilder wheel;
  wheel.add("demo/plain.py", "x = 1\n");
  const pid_t child = ::fork();  // the umask is read once per process
  if (child == 0) {
    const WheelSource from = source(wheel);
    const bool right =
        install({from}) && mode(tree(from) / "site/demo/plain.py") == 0444U && mode(tree(from) / "site/demo") == 0755U;
    ::_exit(right ? 0 : 1);
  }
  ::umask(before);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(WheelInstall, data_schemes_go_where_they_belong) {
  WheelBuilder wheel;
  wheel.add("demo-1.0.data/purelib/pure.py", "p")
      .add("demo-1.0.data/platlib/plat.so", "q")
      .add("demo-1.0.data/data/share/demo/x.txt", "d")
      .add("demo-1.0.data/headers/demo.h", "h");
  const fs::path tree = installed(wheel);
  EXPECT_EQ(content(tree / "site/pure.py"), "p");
  EXPECT_EQ(content(tree / "site/plat.so"), "q");
  EXPECT_EQ(content(tree / "data/share/demo/x.txt"), "d");
  EXPECT_EQ(content(tree / "headers/demo.h"), "h");
  EXPECT_FALSE(fs::exists(tree / "site/demo-1.0.data"));
}

TEST_F(WheelInstall, scripts_start_the_environments_python) {
  WheelBuilder wheel;
  wheel.add("demo-1.0.data/scripts/old", "#!python -E\nprint(1)\n")
      .add("demo-1.0.data/scripts/shell", "#!/bin/sh\nexit 3\n");
  const fs::path tree = installed(wheel);
  EXPECT_EQ(content(tree / "bin/old"), "#!/opt/env/bin/python -E\nprint(1)\n");
  EXPECT_EQ(content(tree / "bin/shell"), "#!/bin/sh\nexit 3\n");
  EXPECT_EQ(mode(tree / "bin/old"), 0555U);
  EXPECT_EQ(mode(tree / "bin/shell"), 0555U);
}

TEST_F(WheelInstall, entry_points_become_commands) {
  WheelBuilder wheel;
  wheel.add("demo-1.0.dist-info/entry_points.txt",
            "# comment\n[console_scripts]\ndemo = demo.cli:main\nnested= demo.cli:App.run "
            "[extra]\n\n[gui_scripts]\nwindow = demo:gui\n"
            "[other]\nanything goes = here\n");
  const fs::path tree = installed(wheel);
  EXPECT_THAT(content(tree / "bin/demo"), HasSubstr("#!/opt/env/bin/python\n"));
  EXPECT_THAT(content(tree / "bin/demo"), HasSubstr("from demo.cli import main\n"));
  EXPECT_THAT(content(tree / "bin/nested"), HasSubstr("from demo.cli import App\n"));
  EXPECT_THAT(content(tree / "bin/nested"), HasSubstr("sys.exit(App.run())"));
  EXPECT_TRUE(fs::exists(tree / "bin/window"));
  EXPECT_EQ(mode(tree / "bin/demo"), 0555U);
}

TEST_F(WheelInstall, record_lists_what_was_installed_with_its_hashes) {
  WheelBuilder wheel;
  wheel.add("demo/with,comma.py", "x")
      .add("demo-1.0.data/scripts/run", "#!python\n")
      .add("demo-1.0.dist-info/entry_points.txt", "[console_scripts]\ndemo = demo:main\n")
      .add("demo-1.0.data/data/share/x", "d");
  const fs::path tree = installed(wheel);
  const auto lines = parse_record(content(tree / "site/demo-1.0.dist-info/RECORD"));
  ASSERT_TRUE(lines);
  std::map<std::string, RecordLine> by_path;
  for (const auto& line : *lines) by_path[line.path] = line;
  EXPECT_EQ(by_path.size(), lines->size());
  EXPECT_EQ(by_path["demo/with,comma.py"].hash, record_hash("x"));
  EXPECT_EQ(by_path["../../../bin/run"].hash, record_hash("#!/opt/env/bin/python\n"));
  EXPECT_EQ(by_path["../../../bin/demo"].hash, record_hash(content(tree / "bin/demo")));
  EXPECT_EQ(by_path["../../../share/x"].hash, record_hash("d"));
  EXPECT_EQ(by_path["demo-1.0.dist-info/INSTALLER"].hash, record_hash("trail\n"));
  EXPECT_EQ(by_path["demo-1.0.dist-info/RECORD"], (RecordLine{"demo-1.0.dist-info/RECORD", "", "", {}}));
  EXPECT_EQ(content(tree / "site/demo-1.0.dist-info/INSTALLER"), "trail\n");
}

TEST_F(WheelInstall, an_archives_own_installer_files_are_not_taken_over) {
  WheelBuilder wheel;
  wheel.add("demo-1.0.dist-info/INSTALLER", "impostor\n")
      .add("demo-1.0.dist-info/direct_url.json", "{}")
      .add("demo-1.0.dist-info/REQUESTED", "");
  const fs::path tree = installed(wheel);
  EXPECT_EQ(content(tree / "site/demo-1.0.dist-info/INSTALLER"), "trail\n");
  EXPECT_FALSE(fs::exists(tree / "site/demo-1.0.dist-info/direct_url.json"));
  EXPECT_FALSE(fs::exists(tree / "site/demo-1.0.dist-info/REQUESTED"));
}

TEST_F(WheelInstall, what_the_wheel_says_is_kept) {
  WheelBuilder wheel;
  wheel.add("demo/__init__.py", "x")
      .add("demo_extra.py", "y")
      .add("demo-1.0.dist-info/METADATA",
           "Name: Demo\nVersion: 1.0\nRequires-Dist: numpy>=1\nRequires-Dist: six\n\nRequires-Dist: not this\n");
  const auto meta = read_wheel_tree(installed(wheel));
  ASSERT_TRUE(meta);
  EXPECT_EQ(meta->name, "Demo");
  EXPECT_THAT(meta->requires_dist, ::testing::ElementsAre("numpy>=1", "six"));
  EXPECT_THAT(meta->top_level, ::testing::ElementsAre("demo", "demo_extra.py"));
}

TEST_F(WheelInstall, stronger_hashes_in_record_are_checked_too) {
  WheelBuilder wheel;
  wheel.add("demo/x.py", "x");
  wheel.spoil_record = [](std::string& record) {
    const auto at = record.find("demo/x.py,");
    record.replace(
        at, record.find('\n', at) - at,
        "demo/x.py,sha512=pK0qaULQMDXwuKEKZeFrg_AmTz8B5ymRMa1O_RGyz_ThjsqiSF0_NOxfHNXMRpbYqcEHSATtmcbbMyE4lU8AxA,1");
  };
  const auto refused = install(wheel);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("'demo/x.py' differs"));
}

TEST_F(WheelInstall, large_entries_are_unpacked_as_streams) {
  std::string content_of_big;
  for (int line = 0; content_of_big.size() < 9'000'000; ++line)
    content_of_big += fmt::format("line {} of a long file\n", line * 7919);
  WheelBuilder wheel;
  wheel.add("demo/big.bin", content_of_big);
  wheel.members.push_back({.name = "demo/stored.bin", .content = content_of_big});
  const fs::path tree = installed(wheel);
  EXPECT_EQ(content(tree / "site/demo/big.bin"), content_of_big);
  EXPECT_EQ(content(tree / "site/demo/stored.bin"), content_of_big);
}

TEST_F(WheelInstall, a_second_install_changes_nothing) {
  WheelBuilder wheel;
  wheel.add("demo/x.py", "x");
  const fs::path tree = installed(wheel);
  const auto before = fs::last_write_time(tree / "site/demo/x.py");
  installed(wheel);
  EXPECT_EQ(fs::last_write_time(tree / "site/demo/x.py"), before);
}

TEST(EntryPoints, a_reference_needs_module_and_object) {
  for (const char* line :
       {"run = demo", "run = demo:", "run = :main", "run = 1demo:main", "run = demo:main()", "run = demo .x:main"})
    EXPECT_FALSE(parse_entry_points(fmt::format("[console_scripts]\n{}\n", line))) << line;
}

TEST(EntryPoints, a_line_that_is_no_assignment_is_an_error) {
  EXPECT_FALSE(parse_entry_points("[console_scripts]\nnonsense\n"));
}

TEST(RecordFile, quoted_fields_survive_reading_and_writing) {
  const std::vector<RecordLine> lines{{"a \"b\", c", "sha256", "x", 3}, {"plain", "", "", {}}};
  const auto read = parse_record(to_text(lines));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, lines);
}

TEST(RecordFile, damage_is_told_with_its_line) {
  for (const char* text : {"a,sha256=x,1\n\"open", "a,sha256=x,1\nb,nohash,1\n", "a,,\nb,,many\n", "a,b,c,d\n"}) {
    const auto read = parse_record(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().context.front(), HasSubstr("of RECORD"));
  }
}

}  // namespace
}  // namespace startrail::image::testing
