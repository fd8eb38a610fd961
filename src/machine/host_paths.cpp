#include "base/files.hpp"
#include "base/process.hpp"
#include "machine/machine.hpp"

namespace startrail::machine {

HostPaths host_paths_from_environment() {
  HostPaths paths;
  if (const auto root = base::environment_variable("STARTRAIL_HOST_ROOT"); root && !root->empty()) paths.root = *root;
  if (const auto library = base::environment_variable("STARTRAIL_NVML"); library && !library->empty())
    paths.nvml_library = *library;
  return paths;
}

fs::path at(const HostPaths& paths, std::string_view absolute) {
  return paths.root / fs::path(absolute).relative_path();
}

}  // namespace startrail::machine
