#include <gmock/gmock.h>

#include <chrono>

#include "base/json.hpp"
#include "fixture_host.hpp"
#include "machine/linux/cgroups.hpp"
#include "machine/linux/user_namespaces.hpp"
#include "machine/runtimes.hpp"
#include "machine/versions.hpp"

namespace startrail::machine {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Bytes k_gibibyte{1ULL << 30U};

std::string v1_mount(const std::string& controller, const std::string& inside = "/") {
  return "35 31 0:32 " + inside + " /sys/fs/cgroup/" + controller + " rw,relatime - cgroup cgroup rw," + controller +
         "\n";
}
const std::string k_unified_mount = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
const std::string k_v2_mount = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

// ---- CPUs and memory ----

TEST(Survey, without_cgroups_the_affinity_mask_and_the_whole_memory_count) {
  const FixtureHost host;
  const Machine machine = host.survey();
  EXPECT_EQ(machine.cpus, 8);
  EXPECT_EQ(machine.memory.count, 16 * k_gibibyte.count);
  EXPECT_EQ(machine.memory_available.count, 8 * k_gibibyte.count);
  EXPECT_EQ(machine.cgroups.mode, CgroupMode::none);
  EXPECT_FALSE(machine.cgroups.writable);
}

TEST(Survey, an_affinity_list_with_gaps_is_counted) {
  const FixtureHost host;
  host.write("/proc/self/status", "Cpus_allowed_list:\t0-1,4,6-7\n");
  EXPECT_EQ(host.survey().cpus, 5);
}

TEST(Survey, v1_limits_of_a_parent_group_hold_for_its_children) {
  const FixtureHost host;
  host.write("/proc/self/mountinfo", v1_mount("memory") + v1_mount("cpu") + v1_mount("pids"));
  host.write("/proc/self/cgroup", "4:memory:/jobs/one\n3:pids:/jobs/one\n1:cpu:/jobs/one\n");
  host.write("/sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "9223372036854771712\n");
  host.write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "4294967296\n");
  host.write("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "3221225472\n");
  host.write("/sys/fs/cgroup/memory/jobs/memory.stat", "inactive_file 5\ntotal_inactive_file 1073741824\n");
  host.write("/sys/fs/cgroup/cpu/jobs/one/cpu.cfs_quota_us", "250000\n");
  host.write("/sys/fs/cgroup/cpu/jobs/one/cpu.cfs_period_us", "100000\n");
  host.write("/sys/fs/cgroup/pids/jobs/one/pids.max", "max\n");
  const Machine machine = host.survey();
  EXPECT_EQ(machine.cgroups.mode, CgroupMode::v1);
  EXPECT_EQ(machine.cpus, 3) << "2.5 CPUs, rounded up";
  EXPECT_EQ(machine.memory.count, 4 * k_gibibyte.count);
  EXPECT_EQ(machine.memory_available.count, 2 * k_gibibyte.count) << "limit less what can't be reclaimed";
  EXPECT_THAT(machine.cgroups.controllers, ElementsAre("memory", "cpu", "pids"));
  EXPECT_EQ(machine.cgroups.own, fs::path());
}

TEST(Survey, v1_without_a_quota_leaves_all_cpus) {
  const FixtureHost host;
  host.write("/proc/self/mountinfo", v1_mount("cpu"));
  host.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  host.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(host.survey().cpus, 8);
}

TEST(Survey, a_group_outside_of_the_mounted_part_is_read_at_the_mount_point) {
  const FixtureHost host;  // a container that sees its own group as the root
  host.write("/proc/self/mountinfo", v1_mount("memory", "/docker/abc"));
  host.write("/proc/self/cgroup", "4:memory:/docker/abc\n");
  host.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(host.survey().memory.count, 2 * k_gibibyte.count);
}

TEST(Survey, hybrid_cgroups_keep_their_controllers_in_v1) {
  const FixtureHost host;
  host.write("/proc/self/mountinfo", v1_mount("memory") + v1_mount("pids") + k_unified_mount);
  host.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  host.write("/sys/fs/cgroup/pids/pids.max", "max\n");
  host.write("/sys/fs/cgroup/unified/cgroup.controllers", "");
  const Machine machine = host.survey();
  EXPECT_EQ(machine.cgroups.mode, CgroupMode::hybrid);
  EXPECT_EQ(machine.memory.count, k_gibibyte.count);
  EXPECT_THAT(machine.cgroups.controllers, ElementsAre("memory", "pids"));
}

TEST(Survey, v2_limits_are_read_on_the_way_up) {
  const FixtureHost host;
  host.write("/proc/self/mountinfo", k_v2_mount);
  host.write("/proc/self/cgroup", "0::/user.slice/job\n");
  host.write("/sys/fs/cgroup/user.slice/memory.max", "6442450944\n");
  host.write("/sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  host.write("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  host.write("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  host.write("/sys/fs/cgroup/user.slice/job/cgroup.controllers", "cpuset cpu memory pids\n");
  host.write("/sys/fs/cgroup/user.slice/job/cgroup.procs", "");
  host.write("/sys/fs/cgroup/user.slice/job/cgroup.subtree_control", "");
  const Machine machine = host.survey();
  EXPECT_EQ(machine.cgroups.mode, CgroupMode::v2);
  EXPECT_EQ(machine.cpus, 2);
  EXPECT_EQ(machine.memory.count, 6 * k_gibibyte.count);
  EXPECT_TRUE(machine.cgroups.writable);
  EXPECT_THAT(machine.cgroups.controllers, ElementsAre("memory", "cpu", "pids"));
  EXPECT_EQ(machine.cgroups.own, at(host.paths(), "/sys/fs/cgroup/user.slice/job"));
}

TEST(Survey, a_v2_group_that_is_not_delegated_is_not_writable) {
  const FixtureHost host;  // no cgroup.procs that could be written
  host.write("/proc/self/mountinfo", k_v2_mount);
  host.write("/proc/self/cgroup", "0::/session\n");
  host.write("/sys/fs/cgroup/session/cgroup.controllers", "cpu memory pids\n");
  const Machine machine = host.survey();
  EXPECT_FALSE(machine.cgroups.writable);
  EXPECT_THAT(machine.cgroups.controllers, IsEmpty());
}

TEST(Survey, an_unreadable_meminfo_is_a_note_and_not_a_failure) {
  const FixtureHost host;
  fs::remove(at(host.paths(), "/proc/meminfo"));
  EXPECT_THAT(host.survey().notes, Contains(HasSubstr("/proc/meminfo")));
}

TEST(Survey, the_system_is_named_as_os_release_names_it) {
  const FixtureHost host;
  host.write("/etc/os-release", "PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\nID=ubuntu\nVERSION_ID=\"24.04\"\n");
  const Machine machine = host.survey();
  EXPECT_EQ(machine.os_id, "ubuntu");
  EXPECT_EQ(machine.os_version, "24.04");
  EXPECT_EQ(machine.os_name, "Ubuntu 24.04.1 LTS");
}

TEST(Survey, this_very_machine_is_surveyed_in_under_a_second) {
  const FixtureHost host;  // for its state folder
  const auto start = std::chrono::steady_clock::now();
  const Machine machine = survey(HostPaths{}, host.state(), Depth::full);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_GE(machine.cpus, 1);
  EXPECT_GT(machine.memory.count, machine.memory_available.count);
  EXPECT_GT(machine.disk_free.count, 0U);
  EXPECT_FALSE(machine.kernel.empty());
}

TEST(Survey, json_has_snake_case_keys_and_null_for_what_is_missing) {
  const FixtureHost host;
  const Json json = to_json(host.survey());
  EXPECT_TRUE(json.at("driver").is_null());
  EXPECT_EQ(json.at("memory").get<std::uint64_t>(), 16 * k_gibibyte.count);
  EXPECT_EQ(json.at("cgroups").at("mode"), "none");
  EXPECT_TRUE(json.at("gpus").is_array());
  EXPECT_TRUE(json.at("user_namespaces").contains("how_to"));
}

// ---- user namespaces ----

TEST(UserNamespaces, each_forbidding_sysctl_is_named_with_the_command_that_lifts_it) {
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"user/max_user_namespaces", "0\n"},
                                          {"kernel/unprivileged_userns_clone", "0\n"},
                                          {"kernel/apparmor_restrict_unprivileged_userns", "1\n"}}) {
    const FixtureHost host;
    host.write("/proc/sys/" + name, value);
    const auto verdict = explain(host.paths(), ProbeOutcome::no_capabilities);
    const std::string key = name.substr(name.find('/') + 1);
    EXPECT_FALSE(verdict.allowed);
    EXPECT_THAT(verdict.why_not, HasSubstr(key));
    EXPECT_THAT(verdict.how_to, HasSubstr(key));
  }
}

TEST(UserNamespaces, what_the_probe_could_do_counts_more_than_a_sysctl) {
  const FixtureHost host;  // AppArmor's switch is on, but a profile lets this program through
  host.write("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
  EXPECT_TRUE(explain(host.paths(), ProbeOutcome::allowed).allowed);
}

TEST(UserNamespaces, a_refusal_without_a_known_sysctl_still_says_something_useful) {
  const FixtureHost host;
  EXPECT_THAT(explain(host.paths(), ProbeOutcome::no_namespace).why_not, HasSubstr("seccomp"));
  EXPECT_THAT(explain(host.paths(), ProbeOutcome::no_capabilities).why_not, HasSubstr("security module"));
}

// ---- runtimes ----

TEST(Runtimes, versions_are_taken_from_the_first_line) {
  EXPECT_EQ(runtime_version("runc version 1.1.5+ds1\ncommit: 1.1.5\n"), "1.1.5+ds1");
  EXPECT_EQ(runtime_version("crun version 1.8.1\n"), "1.8.1");
  EXPECT_EQ(runtime_version("something else\n"), "");
}

TEST(Runtimes, an_old_crun_is_unusable_on_hybrid_cgroups_only) {
  Runtime crun{.name = "crun", .program = "/usr/bin/crun", .version = "1.8.1", .usable = false, .why_not = {}};
  judge(crun, CgroupMode::hybrid);
  EXPECT_FALSE(crun.usable);
  EXPECT_THAT(crun.why_not, HasSubstr("crun 1.8.1 refuses hybrid cgroups"));
  judge(crun, CgroupMode::v2);
  EXPECT_TRUE(crun.usable);
  crun.version = "1.14.1";
  judge(crun, CgroupMode::hybrid);
  EXPECT_TRUE(crun.usable) << "1.14 is newer than 1.9";
}

class FakeRuntimeOnPath : public testing::Test {
 protected:
  FakeRuntimeOnPath() {
    script("echo x >>" + started().string() + "\necho runc version 9.8.7\n");
    m_path = std::getenv("PATH");
    ::setenv("PATH", m_host.state().parent_path().c_str(), 1);
  }
  ~FakeRuntimeOnPath() override { ::setenv("PATH", m_path.c_str(), 1); }
  void script(const std::string& body) const {
    static_cast<void>(base::write_file_atomic(m_host.state().parent_path() / "runc", "#!/bin/sh\n" + body, 0755));
  }
  [[nodiscard]] fs::path started() const { return m_host.state().parent_path() / "started"; }
  [[nodiscard]] std::size_t starts() const { return base::read_file(started()).value_or("").size() / 2; }
  [[nodiscard]] std::string version(Depth depth) const {
    return survey_runtimes(m_host.state(), CgroupMode::v2, depth).at(0).version;
  }
  FixtureHost m_host;
  std::string m_path;
};

TEST_F(FakeRuntimeOnPath, a_quick_survey_starts_a_program_once_and_remembers) {
  EXPECT_EQ(version(Depth::quick), "9.8.7");
  EXPECT_EQ(version(Depth::quick), "9.8.7");
  EXPECT_EQ(starts(), 1U);
  EXPECT_EQ(version(Depth::full), "9.8.7");
  EXPECT_EQ(starts(), 2U) << "a full survey always asks";
}

TEST_F(FakeRuntimeOnPath, a_program_that_changed_is_asked_again) {
  EXPECT_EQ(version(Depth::quick), "9.8.7");
  script("echo runc version 10.0.0-rc1\n");
  EXPECT_EQ(version(Depth::quick), "10.0.0-rc1");
}

TEST_F(FakeRuntimeOnPath, a_damaged_cache_is_ignored) {
  ASSERT_TRUE(base::make_directories(m_host.state() / "cache"));
  ASSERT_TRUE(base::write_file_atomic(m_host.state() / "cache/runtimes.json", "[1, 2"));
  EXPECT_EQ(version(Depth::quick), "9.8.7");
}

TEST_F(FakeRuntimeOnPath, a_runtime_that_does_not_answer_is_unusable) {
  script("exit 3\n");
  const auto runtimes = survey_runtimes(m_host.state(), CgroupMode::v2, Depth::full);
  EXPECT_FALSE(runtimes.at(0).usable);
  EXPECT_THAT(runtimes.at(0).why_not, HasSubstr("did not answer"));
}

TEST(Versions, dotted_numbers_compare_as_numbers) {
  EXPECT_TRUE(older("525.60.13", "525.147.05"));
  EXPECT_FALSE(older("535.183.01", "525.60.13"));
  EXPECT_FALSE(older("580.65.06", "580.65.06"));
  EXPECT_TRUE(older("1.8.1+ds1", "1.9"));
  EXPECT_FALSE(older("1.9", "1.9.0"));
}

}  // namespace
}  // namespace startrail::machine
