// A folder that stands in for a host, and NVML that reads its GPUs from a file.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/files.hpp"
#include "machine/machine.hpp"

namespace startrail::machine {

class FixtureHost {
 public:
  FixtureHost() : m_folder(*base::make_temporary_directory(fs::temp_directory_path(), "host")) {
    write("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:   8388608 kB\n");
    write("/proc/self/status", "Name:\ttrail\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
  }
  ~FixtureHost() {
    static_cast<void>(base::remove_tree(m_folder));
    ::unsetenv("STARTRAIL_FAKE_NVML");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  FixtureHost(const FixtureHost&) = delete;
  FixtureHost& operator=(const FixtureHost&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = at(paths(), path);
    ASSERT_TRUE(base::make_directories(file.parent_path()));
    ASSERT_TRUE(base::write_file_atomic(file, text));
  }
  void link(const std::string& path, const std::string& target) const { fs::create_symlink(target, at(paths(), path)); }
  void play_gpus(const std::string& scenario) {
    write("/scenario", scenario);
    ::setenv("STARTRAIL_FAKE_NVML", at(paths(), "/scenario").c_str(), 1);
    m_library = STARTRAIL_BUILD_DIR "/fakes/libnvidia-ml.so.1";
  }
  [[nodiscard]] HostPaths paths() const { return {.root = m_folder / "root", .nvml_library = m_library}; }
  [[nodiscard]] fs::path state() const { return m_folder / "state"; }
  [[nodiscard]] Machine survey(Depth depth = Depth::full) const { return machine::survey(paths(), state(), depth); }

 private:
  fs::path m_folder;
  std::string m_library = "/nowhere/libnvidia-ml.so.1";
};

inline constexpr const char* k_closed_driver =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc 12\n";
inline constexpr const char* k_open_driver =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)  Sun Jul 27\n";

}  // namespace startrail::machine
