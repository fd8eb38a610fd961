// The OCI runtime configuration (config.json) of one container.
#pragma once

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "sandbox/identity.hpp"
#include "sandbox/root_filesystem.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

// OCI runtime specification 1.0.2, config.md and config-linux.md. The root's own mounts (volumes, driver
// files, /sys with the host's network) are attached before; here is what only the runtime can place.
[[nodiscard]] Json runtime_configuration(const ContainerSpec& spec, const Support& support, const Identity& identity,
                                         const fs::path& root);

// shm_size, or half of the memory limit, or half of the machine's memory.
[[nodiscard]] Bytes shm_size(const Limits& limits);

// /sys is the host's where no new network namespace comes with it (sysfs shows the network of its mounter).
[[nodiscard]] inline bool sys_from_host(Mode mode, Network network) {
  return mode == Mode::rootless && network == Network::host;
}

// Where the runtime puts the container's control group; remove_leftovers looks there.
[[nodiscard]] std::string cgroup_path(const std::string& id);

}  // namespace startrail::sandbox
