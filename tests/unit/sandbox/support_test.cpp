#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.hpp"
#include "sandbox/container_request.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

machine::Runtime runtime(const std::string& name, const std::string& why_not = "") {
  return {.name = name, .program = "/usr/bin/" + name, .version = "1.0", .usable = why_not.empty(), .why_not = why_not};
}

machine::Machine machine_with(std::vector<machine::Runtime> runtimes) {
  machine::Machine machine;
  machine.runtimes = std::move(runtimes);
  machine.user_namespaces.allowed = true;
  machine.cgroups = {
      .mode = machine::CgroupMode::v2, .writable = true, .controllers = {"memory", "cpu", "pids"}, .own = {}};
  return machine;
}

TEST(Probe, takes_the_faster_runtime_of_two) {
  EXPECT_EQ(probe(machine_with({runtime("runc"), runtime("crun")}))->runtime_name, "crun");
  EXPECT_EQ(probe(machine_with({runtime("runc"), runtime("crun", "broken")}))->runtime_name, "runc");
}

TEST(Probe, crun_works_on_hybrid_control_groups_with_the_second_hierarchy_hidden) {
  auto machine = machine_with({runtime("runc"), runtime("crun", "refuses hybrid cgroups")});
  machine.cgroups.mode = machine::CgroupMode::hybrid;
  EXPECT_EQ(probe(machine)->runtime_name, "crun");
}

TEST(Probe, no_runtime_is_refused_with_the_ways_out) {
  const auto support = probe(machine_with({runtime("runc", "too old")}));
  ASSERT_FALSE(support);
  EXPECT_EQ(support.error().code, ErrorCode::unsupported);
  EXPECT_THAT(support.error().context, Contains(HasSubstr("too old")));
  EXPECT_THAT(support.error().hints, Contains(HasSubstr("apt install")));
  EXPECT_THAT(support.error().hints, Contains(HasSubstr("--isolation none")));
}

TEST(Probe, root_gets_control_groups_where_they_can_be_made) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root";
  auto machine = machine_with({runtime("runc")});
  EXPECT_TRUE(probe(machine)->cgroup_limits);
  machine.cgroups.writable = false;
  EXPECT_FALSE(probe(machine)->cgroup_limits);
  EXPECT_THAT(probe(machine)->limits_by, HasSubstr("RLIMIT_NPROC"));
}

TEST(Probe, an_ordinary_user_without_user_namespaces_is_told_what_forbids_them) {
  auto machine = machine_with({runtime("runc")});
  machine.user_namespaces = {.allowed = false, .why_not = "the setting is 1", .how_to = "sudo sysctl setting=0"};
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setresuid(23456, 23456, 23456) != 0) ::_exit(2);
    const auto support = probe(machine);
    const bool told = !support && support.error().context == std::vector<std::string>{"the setting is 1"} &&
                      support.error().hints.at(0) == "sudo sysctl setting=0";
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ContainerSpecJson, every_field_survives_the_way_to_another_process) {
  const ContainerSpec spec{
      .id = "x",
      .layers = {"/a", "/b"},
      .scratch = "/s",
      .argv = {"python", "train.py", "two words"},
      .environment = {{"KEY", "value=with=signs"}},
      .directory = "/workspace",
      .hostname = "box",
      .mounts = {{.source = "/w", .target = "/workspace", .ownership = Ownership::caller},
                 {.source = "/d",
                  .target = "/mnt/datasets",
                  .access = Access::read_only,
                  .expected = Place{.device = 1, .inode = 2, .owner = 3}}},
      .limits = {.memory = Bytes{5}, .cpus = 1.5, .pids = 7, .shm_size = Bytes{9}},
      .network = Network::none,
      .gpus = {.devices = {{.path = "/dev/nvidia0", .host_path = "/dev/nvidia0", .major = 195, .minor = 0}},
               .mounts = {{.host_path = "/h/libcuda.so.1", .container_path = "/c/libcuda.so.1"}},
               .library_directories = {"/c"},
               .environment = {{"NVIDIA_VISIBLE_DEVICES", "void"}}},
      .scratch_after = Scratch::discarded,
      .owner_reference = "/w"};
  const auto back = container_spec_from_json(to_json(spec));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back), to_json(spec));
  EXPECT_EQ(back->limits.cpus, 1.5);
  EXPECT_EQ(back->mounts[1].access, Access::read_only);
  EXPECT_FALSE(back->mounts[0].expected);
  EXPECT_EQ(back->mounts[1].expected, (Place{.device = 1, .inode = 2, .owner = 3}));
  EXPECT_EQ(back->gpus.devices[0].major, 195U);
  EXPECT_EQ(back->scratch_after, Scratch::discarded);
}

TEST(ContainerSpecJson, limits_that_are_not_set_stay_so) {
  const ContainerSpec spec{.id = "x", .scratch = "/s", .argv = {"true"}};
  const auto back = container_spec_from_json(to_json(spec));
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->limits.memory || back->limits.cpus || back->limits.pids);
}

TEST(ContainerSpecJson, a_description_without_a_command_is_corrupt) {
  EXPECT_EQ(container_spec_from_json(Json::parse(R"({"id": "x", "scratch": "/s"})")).error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace startrail::sandbox
