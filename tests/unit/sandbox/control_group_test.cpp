#include "sandbox/control_group.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"

namespace startrail::sandbox {
namespace {

// A directory tree that looks like /sys/fs/cgroup.
class ControlGroupFiles : public ::testing::Test {
 protected:
  void SetUp() override { m_hierarchy = *base::make_temporary_directory(fs::temp_directory_path(), "cgroup"); }
  void TearDown() override { EXPECT_TRUE(base::remove_tree(m_hierarchy)); }
  void write(const std::string& name, const std::string& content) const {
    ASSERT_TRUE(base::make_directories((m_hierarchy / name).parent_path()));
    ASSERT_TRUE(base::write_file_atomic(m_hierarchy / name, content));
  }
  fs::path m_hierarchy;
};

TEST_F(ControlGroupFiles, version_one_is_read) {
  write("memory/startrail/a/memory.usage_in_bytes", "5000\n");
  write("memory/startrail/a/memory.max_usage_in_bytes", "9000\n");
  write("memory/startrail/a/memory.stat", "cache 1\ninactive_file 7\ntotal_inactive_file 2000\n");
  write("memory/startrail/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  write("pids/startrail/a/pids.events", "max 3\n");
  write("pids/startrail/a/cgroup.procs", "10\n11\n12\n");
  const auto group = ControlGroup::find("a", m_hierarchy);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->memory_now().count, 3000U);
  EXPECT_EQ(group->peak_memory()->count, 9000U);
  EXPECT_TRUE(group->out_of_memory_killed());
  EXPECT_TRUE(group->process_limit_hit());
  EXPECT_EQ(group->process_count(), 3);
}

TEST_F(ControlGroupFiles, version_two_is_read) {
  write("startrail/a/cgroup.procs", "10\n");
  write("startrail/a/memory.current", "5000\n");
  write("startrail/a/memory.stat", "anon 1\ninactive_file 1000\n");
  write("startrail/a/memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 0\noom_group_kill 0\n");
  write("startrail/a/pids.events", "max 0\n");
  const auto group = ControlGroup::find("a", m_hierarchy);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->memory_now().count, 4000U);
  EXPECT_FALSE(group->peak_memory());  // memory.peak is missing before Linux 5.19
  EXPECT_FALSE(group->out_of_memory_killed());
  EXPECT_FALSE(group->process_limit_hit());
  EXPECT_EQ(group->process_count(), 1);
}

// cgroup.procs shows 0 for a process of another PID namespace; kill(0) would reach this process's own group.
TEST_F(ControlGroupFiles, a_process_that_has_no_number_here_is_no_member) {
  write("startrail/a/cgroup.procs", "0\n10\n0\n");
  EXPECT_EQ(ControlGroup::find("a", m_hierarchy)->process_count(), 1);
}

TEST_F(ControlGroupFiles, a_group_that_is_not_there_is_not_found_and_its_removal_is_fine) {
  EXPECT_FALSE(ControlGroup::find("a", m_hierarchy));
  remove_control_group("a", m_hierarchy);
}

TEST_F(ControlGroupFiles, a_group_is_removed_from_every_hierarchy_and_others_stay) {
  ASSERT_TRUE(base::make_directories(m_hierarchy / "memory/startrail/a"));
  ASSERT_TRUE(base::make_directories(m_hierarchy / "pids/startrail/a/nested"));
  ASSERT_TRUE(base::make_directories(m_hierarchy / "pids/startrail/b"));
  remove_control_group("a", m_hierarchy);
  EXPECT_FALSE(fs::exists(m_hierarchy / "memory/startrail/a"));
  EXPECT_FALSE(fs::exists(m_hierarchy / "pids/startrail/a"));
  EXPECT_TRUE(fs::exists(m_hierarchy / "pids/startrail/b"));
}

}  // namespace
}  // namespace startrail::sandbox
