// A container's control group, version 1 or 2: what it used, whether its limits struck, and its removal.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/units.hpp"

namespace startrail::sandbox {

class ControlGroup {
 public:
  // Finds the group that the runtime made for `id`, under `hierarchy` (normally /sys/fs/cgroup).
  [[nodiscard]] static std::optional<ControlGroup> find(const std::string& id,
                                                        const fs::path& hierarchy = "/sys/fs/cgroup");

  // Without the page cache that can be dropped at once, as container tools count a working set.
  [[nodiscard]] Bytes memory_now() const;
  [[nodiscard]] std::optional<Bytes> peak_memory() const;
  [[nodiscard]] bool out_of_memory_killed() const;
  [[nodiscard]] bool process_limit_hit() const;
  // Processes, init included.
  [[nodiscard]] int process_count() const;

 private:
  enum class Version { v1, v2 };
  ControlGroup(Version version, fs::path memory, fs::path processes)
      : m_version(version), m_memory(std::move(memory)), m_processes(std::move(processes)) {}
  Version m_version;
  fs::path m_memory;
  fs::path m_processes;
};

// Kills what is still in it, then removes the group from every hierarchy. One that isn't there is fine.
void remove_control_group(const std::string& id, const fs::path& hierarchy = "/sys/fs/cgroup");

}  // namespace startrail::sandbox
