#include <gmock/gmock.h>

#include "fixture_host.hpp"
#include "machine/gpu/cdi.hpp"
#include "machine/gpu/driver.hpp"
#include "machine/gpu/nvml.hpp"

namespace startrail::machine {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* k_two_gpus =
    "driver 535.183.01\ncuda 12.2\n"
    "gpu name=\"NVIDIA A100-SXM4-80GB\" cc=8.0 memory=85899345920 pci=0000:81:00.0 minor=1 uuid=GPU-aaaa\n"
    "gpu name=\"NVIDIA H100 80GB HBM3\" cc=9.0 mig=1 minor=0 uuid=GPU-bbbb\n";

TEST(Driver, the_version_is_read_from_both_kinds_of_kernel_module) {
  EXPECT_EQ(driver_version_in(k_closed_driver), "535.183.01");
  EXPECT_EQ(driver_version_in(k_open_driver), "580.65.06");
  EXPECT_EQ(driver_version_in("GCC version: 12.2.0\n"), "");
}

TEST(Gpus, nvml_describes_each_gpu) {
  FixtureHost host;
  host.write("/proc/driver/nvidia/version", k_closed_driver);
  host.play_gpus(k_two_gpus);
  const Machine machine = host.survey();
  ASSERT_TRUE(machine.driver);
  EXPECT_EQ(machine.driver->version, "535.183.01");
  EXPECT_EQ(machine.driver->cuda, "12.2");
  EXPECT_EQ(machine.driver->read_from, "/proc/driver/nvidia/version");
  ASSERT_EQ(machine.gpus.size(), 2U);
  const Gpu& first = machine.gpus[0];
  EXPECT_EQ(first.name, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(first.architecture(), "sm_80");
  EXPECT_EQ(first.compute_capability(), "8.0");
  EXPECT_EQ(first.memory.count, 85899345920U);
  EXPECT_EQ(first.pci_address, "0000:81:00.0");
  EXPECT_EQ(first.minor_number, 1);
  EXPECT_FALSE(first.mig_enabled);
  EXPECT_TRUE(machine.gpus[1].mig_enabled);
  EXPECT_THAT(machine.notes, IsEmpty());
}

TEST(Gpus, nvml_alone_is_enough_to_know_the_driver) {
  FixtureHost host;
  host.play_gpus("driver 550.54.14\ncuda 12.4\ngpu cc=8.9\n");
  const Machine machine = host.survey();
  ASSERT_TRUE(machine.driver);
  EXPECT_EQ(machine.driver->version, "550.54.14");
  EXPECT_EQ(machine.driver->read_from, "NVML");
}

TEST(Gpus, a_quick_survey_opens_nvml_only_when_a_driver_is_loaded) {
  FixtureHost host;
  host.play_gpus("gpu cc=8.9\n");
  EXPECT_THAT(host.survey(Depth::quick).gpus, IsEmpty());
  host.write("/proc/driver/nvidia/version", k_open_driver);
  EXPECT_EQ(host.survey(Depth::quick).gpus.size(), 1U);
}

TEST(Gpus, a_driver_without_nvml_is_known_with_a_note) {
  const FixtureHost host;
  host.write("/proc/driver/nvidia/version", k_closed_driver);
  const Machine machine = host.survey();
  ASSERT_TRUE(machine.driver);
  EXPECT_EQ(machine.driver->version, "535.183.01");
  EXPECT_EQ(machine.driver->cuda, "");
  EXPECT_THAT(machine.notes, ElementsAre(HasSubstr("its library can't be opened")));
}

TEST(Gpus, a_driver_upgraded_under_way_is_told_with_the_way_out) {
  FixtureHost host;
  host.write("/proc/driver/nvidia/version", k_closed_driver);
  host.play_gpus("fail library_mismatch\n");
  const Machine machine = host.survey();
  ASSERT_TRUE(machine.driver);
  EXPECT_THAT(machine.gpus, IsEmpty());
  EXPECT_THAT(machine.notes, ElementsAre(AllOf(HasSubstr("Driver/library version mismatch"), HasSubstr("reboot"))));
}

TEST(Gpus, a_gpu_that_fell_off_the_bus_leaves_the_others_their_numbers) {
  FixtureHost host;
  host.write("/proc/driver/nvidia/version", k_open_driver);
  host.play_gpus("gpu lost=1\ngpu cc=9.0\n");
  const Machine machine = host.survey();
  ASSERT_EQ(machine.gpus.size(), 1U);
  EXPECT_EQ(machine.gpus[0].index, 1);
  EXPECT_THAT(machine.notes, ElementsAre(HasSubstr("GPU 0 does not answer")));
}

TEST(Gpus, a_gpu_on_the_pci_bus_without_a_driver_is_a_note) {
  const FixtureHost host;
  host.write("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  host.write("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  host.write("/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");  // its sound function
  host.write("/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
  host.write("/sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
  host.write("/sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
  const Machine machine = host.survey();
  EXPECT_FALSE(machine.driver);
  EXPECT_THAT(machine.notes,
              ElementsAre("an NVIDIA GPU is on the PCI bus (0000:01:00.0), but no NVIDIA driver is loaded"));
}

TEST(Gpus, cuda_visible_devices_hides_the_others) {
  FixtureHost host;
  host.write("/proc/driver/nvidia/version", k_open_driver);
  host.play_gpus(k_two_gpus);
  const auto visible = [&](const char* value) {
    ::setenv("CUDA_VISIBLE_DEVICES", value, 1);
    std::vector<int> result;
    for (const auto& gpu : host.survey().gpus)
      if (gpu.visible) result.push_back(gpu.index);
    return result;
  };
  EXPECT_THAT(visible("1"), ElementsAre(1));
  EXPECT_THAT(visible("1,0"), ElementsAre(0, 1));
  EXPECT_THAT(visible("GPU-bb"), ElementsAre(1));
  EXPECT_THAT(visible("0,9,1"), ElementsAre(0)) << "an invalid one ends the list";
  EXPECT_THAT(visible(""), IsEmpty());
  EXPECT_THAT(visible("-1"), IsEmpty());
}

TEST(GpuProcesses, are_listed_with_their_memory_by_every_version_of_the_call) {
  for (const std::string without :
       {"", "without nvmlDeviceGetComputeRunningProcesses_v3\n",
        "without nvmlDeviceGetComputeRunningProcesses_v3\nwithout nvmlDeviceGetComputeRunningProcesses_v2\n"}) {
    FixtureHost host;
    std::string scenario = without + "gpu cc=8.0\ngpu cc=8.0\nprocess gpu=1 pid=99\n";
    for (int pid = 1; pid <= 12; ++pid) scenario += "process gpu=0 pid=" + std::to_string(pid) + " memory=1048576\n";
    host.play_gpus(scenario);
    const auto processes = gpu_processes(host.paths());
    ASSERT_EQ(processes.size(), 13U) << without;
    EXPECT_EQ(processes[11].pid, 12);
    EXPECT_EQ(processes[11].memory.count, 1048576U);
    EXPECT_EQ(processes[12].gpu_index, 1);
    EXPECT_EQ(processes[12].memory.count, 0U) << "not available";
  }
}

TEST(GpuProcesses, are_none_without_nvml) {
  const FixtureHost host;
  EXPECT_THAT(gpu_processes(host.paths()), IsEmpty());
}

}  // namespace
}  // namespace startrail::machine
