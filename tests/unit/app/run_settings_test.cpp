#include "app/run_settings.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/files.hpp"

namespace startrail::app {
namespace {

class RunSettings : public testing::Test {
 protected:
  void SetUp() override { m_folder = base::make_temporary_directory(fs::temp_directory_path(), "settings").value(); }
  void TearDown() override { (void)base::remove_tree(m_folder); }
  [[nodiscard]] std::string mount(const std::string& rest) const { return m_folder.string() + ":" + rest; }
  fs::path m_folder;
};

machine::Machine machine_with_gpus(int count) {
  machine::Machine machine;
  for (int index = 0; index < count; ++index) {
    machine::Gpu gpu;
    gpu.index = index;
    gpu.name = "Test GPU";
    machine.gpus.push_back(gpu);
  }
  return machine;
}

machine::HostPaths no_host() {
  return {.root = "/nonexistent", .nvml_library = "libnot-there.so"};
}

TEST_F(RunSettings, a_mount_is_read_only_when_it_says_ro) {
  const auto read_only = parse_mount(mount("/mnt/data:ro"));
  ASSERT_TRUE(read_only);
  EXPECT_EQ(read_only->access, sandbox::Access::read_only);
  EXPECT_EQ(read_only->target, "/mnt/data");
  const auto writable = parse_mount(mount("/mnt/data"));
  ASSERT_TRUE(writable);
  EXPECT_EQ(writable->access, sandbox::Access::read_write);
}

TEST_F(RunSettings, a_mounts_source_is_made_absolute) {
  const auto old = fs::current_path();
  fs::current_path(m_folder);
  fs::create_directory("data");
  const auto result = parse_mount("data:/x");
  fs::current_path(old);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->source, fs::canonical(m_folder / "data"));
}

TEST_F(RunSettings, a_mount_without_its_source_names_it_and_says_how_to_make_it) {
  const auto result = parse_mount("/nowhere-at-all:/x");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::not_found);
  EXPECT_NE(result.error().message.find("/nowhere-at-all"), std::string::npos);
  EXPECT_NE(result.error().hints.at(0).find("mkdir"), std::string::npos);
}

TEST_F(RunSettings, a_mount_over_the_workspace_is_refused_however_it_is_spelled) {
  for (const char* target : {"/workspace", "/workspace/", "/x/../workspace", "/", "/usr"})
    EXPECT_FALSE(parse_mount(mount(target))) << target;
  EXPECT_TRUE(parse_mount(mount("/workspace/data")));
}

TEST_F(RunSettings, mounts_of_a_wrong_form_are_refused) {
  for (const std::string& text :
       {std::string("nonsense"), std::string(":/x"), mount(""), mount("x"), mount("/x:rx"), mount("/x:ro:z")})
    EXPECT_FALSE(parse_mount(text)) << text;
}

TEST(Environment, a_value_may_hold_equals_signs) {
  base::Environment environment;
  ASSERT_TRUE(add_environment(environment, "A=b=c", {}));
  EXPECT_EQ(environment.at("A"), "b=c");
}

TEST(Environment, a_bare_name_takes_the_callers_value_or_is_refused) {
  base::Environment environment;
  ASSERT_TRUE(add_environment(environment, "TOKEN", {{"TOKEN", "t"}}));
  EXPECT_EQ(environment.at("TOKEN"), "t");
  EXPECT_FALSE(add_environment(environment, "OTHER", {}));
}

TEST(Environment, the_runs_own_variables_can_not_be_set) {
  base::Environment environment;
  EXPECT_FALSE(add_environment(environment, "TRAIL_OUTPUT_DIR=/x", {}));
  EXPECT_TRUE(environment.empty());
}

TEST_F(RunSettings, an_environment_file_keeps_values_as_written_and_names_a_bad_line) {
  const fs::path file = m_folder / "vars";
  std::ofstream(file) << "# comment\n\nA=\"x y\"\r\nB=2\nNOT_SET\n";
  base::Environment environment;
  ASSERT_TRUE(add_environment_file(environment, file, {}));
  EXPECT_EQ(environment, (base::Environment{{"A", "\"x y\""}, {"B", "2"}}));
  std::ofstream(file) << "A=1\n=2\n";
  const auto bad = add_environment_file(environment, file, {});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().context.at(0), "read from " + file.string() + ":2");
}

TEST(Limits, zero_negative_and_nonsense_are_refused) {
  for (const char* text : {"0", "-1GiB", "lots", "", "1KiB"})
    EXPECT_FALSE(parse_limit("--memory", text, Bytes{6U << 20U})) << text;
  EXPECT_EQ(parse_limit("--memory", "512MiB", Bytes{6U << 20U})->count, 512U << 20U);
  for (const char* text : {"0", "-1", "x", "nan", "inf", "1e9", ""}) EXPECT_FALSE(parse_cpus(text)) << text;
  EXPECT_DOUBLE_EQ(*parse_cpus("1.5"), 1.5);
  for (const char* text : {"0", "-1", "1.5", "x"}) EXPECT_FALSE(parse_pids(text)) << text;
  EXPECT_EQ(*parse_grace("2m"), 120);
  EXPECT_FALSE(parse_grace("soon"));
}

TEST(Gpus, a_number_is_a_count_and_a_list_is_indexes) {
  EXPECT_EQ(parse_gpus("2")->kind, GpuRequest::Kind::count);
  EXPECT_EQ(parse_gpus("0")->kind, GpuRequest::Kind::none);
  EXPECT_EQ(parse_gpus("0,2,0")->indexes, (std::vector<int>{0, 2}));
  EXPECT_EQ(parse_gpus("device=1")->indexes, (std::vector<int>{1}));
  for (const char* text : {"banana", "-1", "0,x", "", ","}) EXPECT_FALSE(parse_gpus(text)) << text;
}

TEST(Gpus, all_means_those_that_are_here_also_when_there_are_none) {
  EXPECT_TRUE(pick_gpus({}, machine_with_gpus(0), no_host())->empty());
  EXPECT_EQ(*pick_gpus({}, machine_with_gpus(2), no_host()), (std::vector<int>{0, 1}));
}

TEST(Gpus, more_than_there_are_is_refused_with_what_there_is) {
  const auto result = pick_gpus({.kind = GpuRequest::Kind::count, .count = 3}, machine_with_gpus(2), no_host());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::refused);
  EXPECT_NE(result.error().context.at(0).find("1: Test GPU"), std::string::npos);
  EXPECT_FALSE(pick_gpus({.kind = GpuRequest::Kind::list, .indexes = {5}}, machine_with_gpus(2), no_host()));
}

}  // namespace
}  // namespace startrail::app
