#include "machine/gpu/cdi.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <map>

#include "fixture_host.hpp"
#include "machine/gpu/driver_files.hpp"

namespace startrail::machine {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string k_debian_libraries = "/usr/lib/x86_64-linux-gnu/";

class DriverTree : public testing::Test {
 protected:
  DriverTree() {
    host.write("/proc/driver/nvidia/version", k_closed_driver);
    host.write("/proc/devices",
               "Character devices:\n  1 mem\n195 nvidia-frontend\n234 nvidia-caps\n510 nvidia-uvm\n\nBlock devices:\n");
    for (const char* node : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"})
      host.write(std::string("/dev/") + node, "");
    for (const char* library : {"libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-gpucomp"})
      add_library(k_debian_libraries, library);
    host.link(k_debian_libraries + "libcuda.so.1", "libcuda.so.535.183.01");
    host.link(k_debian_libraries + "libcuda.so", "libcuda.so.1");
    host.write("/usr/bin/nvidia-smi", "elf");
    host.play_gpus("driver 535.183.01\ngpu minor=1 cc=8.0\ngpu minor=0 cc=8.0\n");
  }
  void add_library(const std::string& directory, const std::string& stem) const {
    host.write(directory + stem + ".so.535.183.01", "elf");
  }
  [[nodiscard]] Result<CdiEdits> edits(const std::vector<int>& gpus) const {
    return cdi_edits(host.paths(), host.survey(), gpus);
  }
  // container path → host path below the fixture's root
  [[nodiscard]] std::map<std::string, std::string> mounts(const std::vector<int>& gpus) const {
    std::map<std::string, std::string> result;
    const fs::path root = fs::canonical(host.paths().root);
    const auto all = edits(gpus);
    for (const auto& mount : all->mounts)
      result[mount.container_path] = "/" + mount.host_path.lexically_relative(root).string();
    return result;
  }
  static std::vector<std::string> names(const std::vector<DeviceNode>& devices) {
    std::vector<std::string> result;
    for (const auto& device : devices) result.push_back(device.path);
    return result;
  }
  FixtureHost host;
};

TEST_F(DriverTree, no_gpus_need_no_edits) {
  const auto result = edits({});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->devices, IsEmpty());
  EXPECT_THAT(result->mounts, IsEmpty());
  EXPECT_THAT(result->environment, IsEmpty());
}

TEST_F(DriverTree, only_the_chosen_gpu_gets_a_node_beside_the_control_nodes) {
  const auto result = edits({0});
  ASSERT_TRUE(result);
  EXPECT_THAT(names(result->devices),
              ElementsAre("/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"));
  EXPECT_EQ(result->devices[0].major, 195U);
  EXPECT_EQ(result->devices[0].minor, 1U);
  EXPECT_EQ(result->devices[1].minor, 255U);
  EXPECT_EQ(result->devices[2].major, 510U);
  EXPECT_EQ(result->devices[2].minor, 0U);
  EXPECT_EQ(result->devices[3].minor, 1U);
  EXPECT_EQ(result->devices[0].host_path, at(host.paths(), "/dev/nvidia1"));
}

TEST_F(DriverTree, libraries_are_mounted_under_every_name_that_programs_ask_for) {
  const auto result = mounts({0, 1});
  const std::string inside = std::string(k_container_library_directory) + "/";
  const std::string real = k_debian_libraries + "libcuda.so.535.183.01";
  EXPECT_EQ(result.at(inside + "libcuda.so.535.183.01"), real);
  EXPECT_EQ(result.at(inside + "libcuda.so.1"), real);
  EXPECT_EQ(result.at(inside + "libcuda.so"), real);
  EXPECT_EQ(result.at(inside + "libnvidia-ml.so.1"), k_debian_libraries + "libnvidia-ml.so.535.183.01")
      << "its SONAME, although the host has no link of that name";
  EXPECT_TRUE(result.contains(inside + "libnvidia-gpucomp.so.535.183.01"));
  EXPECT_EQ(result.at("/usr/bin/nvidia-smi"), "/usr/bin/nvidia-smi");
  EXPECT_THAT(edits({0})->library_directories, ElementsAre(std::string(k_container_library_directory)));
}

TEST_F(DriverTree, a_library_of_another_driver_version_is_left_alone) {
  host.write(k_debian_libraries + "libnvidia-opencl.so.470.42.01", "elf");
  for (const auto& [inside, outside] : mounts({0})) EXPECT_THAT(outside, Not(HasSubstr("470")));
}

TEST_F(DriverTree, libraries_of_a_red_hat_tree_are_found) {
  for (const char* library : {"libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"}) {
    fs::remove(at(host.paths(), k_debian_libraries + library + ".so.535.183.01"));
    add_library("/usr/lib64/", library);
  }
  const auto result = mounts({0});
  EXPECT_EQ(result.at(std::string(k_container_library_directory) + "/libcuda.so.1"),
            "/usr/lib64/libcuda.so.535.183.01");
}

// glibc's format: header of 48 bytes, entries of 24 (flags, key, value, osversion, hwcap), then the strings.
std::string ld_so_cache(const std::vector<std::pair<std::string, std::string>>& libraries) {
  std::string strings;
  std::string entries;
  const auto put = [](std::string& target, std::uint32_t value) {
    target.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const auto strings_at = static_cast<std::uint32_t>(48 + 24 * libraries.size());
  for (const auto& [name, path] : libraries) {
    put(entries, 0x303);
    put(entries, strings_at + static_cast<std::uint32_t>(strings.size()));
    strings += name + '\0';
    put(entries, strings_at + static_cast<std::uint32_t>(strings.size()));
    strings += path + '\0';
    for (int i = 0; i < 3; ++i) put(entries, 0);
  }
  std::string cache = "glibc-ld.so.cache1.1";
  put(cache, static_cast<std::uint32_t>(libraries.size()));
  put(cache, static_cast<std::uint32_t>(strings.size()));
  cache.resize(48);
  return cache + entries + strings;
}

TEST_F(DriverTree, libraries_in_an_unusual_place_are_found_through_the_linker_cache) {
  for (const char* library : {"libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"}) {
    fs::remove(at(host.paths(), k_debian_libraries + library + ".so.535.183.01"));
    add_library("/opt/driver/lib/", library);
  }
  EXPECT_FALSE(edits({0}));
  host.write("/etc/ld.so.cache",
             ld_so_cache({{"libc.so.6", "/lib/libc.so.6"}, {"libcuda.so.1", "/opt/driver/lib/libcuda.so.1"}}));
  EXPECT_EQ(mounts({0}).at(std::string(k_container_library_directory) + "/libcuda.so.1"),
            "/opt/driver/lib/libcuda.so.535.183.01");
}

TEST(LinkerCache, this_hosts_cache_names_the_directory_of_libc) {
  const auto cache = base::read_file("/etc/ld.so.cache");
  ASSERT_TRUE(cache);
  EXPECT_THAT(cached_library_directories(*cache, {"libc.so.6"}), Contains(HasSubstr("/lib")));
}

TEST(LinkerCache, an_old_cache_in_front_is_skipped) {
  std::string old = "ld.so-1.7.0";
  old.resize(12);
  const std::uint32_t count = 1;
  old.append(reinterpret_cast<const char*>(&count), sizeof count);
  old.resize(16 + 12);
  old.resize(32);  // aligned to 8
  EXPECT_THAT(cached_library_directories(old + ld_so_cache({{"libcuda.so.1", "/a/libcuda.so.1"}}), {"libcuda"}),
              ElementsAre("/a"));
}

TEST(LinkerCache, damaged_caches_end_the_reading_and_nothing_else) {
  const std::string whole = ld_so_cache({{"libcuda.so.1", "/a/libcuda.so.1"}, {"libcuda.so", "/b/libcuda.so"}});
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_LE(cached_library_directories(std::string_view(whole).substr(0, size), {"libcuda"}).size(), 2U);
  std::string wild = whole;
  std::memset(wild.data() + 20, 0xFF, wild.size() - 20);
  EXPECT_THAT(cached_library_directories(wild, {"libcuda"}), IsEmpty());
}

TEST_F(DriverTree, a_missing_library_is_named_with_the_package_to_install) {
  fs::remove(at(host.paths(), k_debian_libraries + "libnvidia-ptxjitcompiler.so.535.183.01"));
  const auto result = edits({0});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::not_found);
  EXPECT_THAT(result.error().message, HasSubstr("libnvidia-ptxjitcompiler.so.535.183.01"));
  EXPECT_THAT(result.error().hints, Contains(HasSubstr("libnvidia-compute-535")));
}

TEST_F(DriverTree, a_missing_uvm_node_is_named_with_the_command_that_makes_it) {
  fs::remove(at(host.paths(), "/dev/nvidia-uvm"));
  const auto result = edits({0});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("/dev/nvidia-uvm"));
  EXPECT_THAT(result.error().hints, Contains(HasSubstr("nvidia-modprobe")));
}

TEST_F(DriverTree, a_gpu_that_is_not_there_is_refused) {
  const auto result = edits({0, 2});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::invalid_input);
  EXPECT_EQ(result.error().message, "there is no GPU 2 here; this machine has 2");
}

TEST_F(DriverTree, without_a_driver_nothing_can_be_given) {
  const auto result = cdi_edits(host.paths(), Machine{}, {0});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::not_found);
}

TEST_F(DriverTree, a_gpu_in_mig_mode_brings_the_nodes_of_its_instances) {
  host.play_gpus("driver 535.183.01\ngpu minor=0 cc=9.0 mig=1\n");
  host.write("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "DeviceFileMinor: 12\nDeviceFileMode: 444\n");
  host.write("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access", "DeviceFileMinor: 13\n");
  host.write("/proc/driver/nvidia/capabilities/gpu1/mig/gi1/access", "DeviceFileMinor: 99\n");
  host.write("/dev/nvidia-caps/nvidia-cap12", "");
  host.write("/dev/nvidia-caps/nvidia-cap13", "");
  const auto result = edits({0});
  ASSERT_TRUE(result);
  EXPECT_THAT(names(result->devices),
              ElementsAre("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                          "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"));
  EXPECT_EQ(result->devices.back().major, 234U);
}

TEST_F(DriverTree, an_nvidia_aware_runtime_is_told_to_add_nothing) {
  EXPECT_THAT(edits({0})->environment, ElementsAre(testing::Pair("NVIDIA_VISIBLE_DEVICES", "void")));
}

TEST(Wsl, the_one_device_and_the_windows_drivers_libraries_are_given) {
  FixtureHost host;
  host.write("/dev/dxg", "");
  host.write("/usr/lib/wsl/drivers/nv_dispi/libcuda.so.1.1", "elf");
  for (const char* library : {"libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"})
    host.write(std::string("/usr/lib/wsl/lib/") + library + ".so.1", "elf");
  host.play_gpus("driver 551.61\ngpu cc=8.9\n");
  const auto result = cdi_edits(host.paths(), host.survey(), {0});
  ASSERT_TRUE(result) << base::to_text(result.error());
  ASSERT_EQ(result->devices.size(), 1U);
  EXPECT_EQ(result->devices[0].path, "/dev/dxg");
  EXPECT_EQ(result->mounts.back().container_path, "/usr/lib/wsl/drivers");
}

}  // namespace
}  // namespace startrail::machine
