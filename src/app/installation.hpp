// What every use case starts from: where things are kept, and which program this is.
#pragma once

#include <filesystem>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/state_paths.hpp"
#include "machine/machine.hpp"

namespace startrail::app {

struct Installation {
  base::StatePaths paths;
  std::filesystem::path program;  // this executable, started again for supervisors and background work
  machine::HostPaths host;
  base::Environment environment;  // the caller's
  std::string user;               // login name of the real user, "uid 1234" when there is none
};

// Reads the environment and the configuration file; tells the catalog where the user's rows would be, and the store
// which system store there is; makes nothing. Errors: invalid_input (STARTRAIL_HOME, HOME).
[[nodiscard]] Result<Installation> find_installation();

// The store of all users that this one takes from: STARTRAIL_SYSTEM_STORE, else `system_store` of config.toml, where
// anything but a path means none; else /var/lib/startrail/store if it is there. "" for none.
[[nodiscard]] std::filesystem::path system_store_of(const base::Environment& environment);

// Makes the state directory and proves that it can be written.
// Errors: permission, no_space, conflict, each naming the folder and STARTRAIL_HOME.
[[nodiscard]] Result<void> prepare_state(const Installation& installation);

// The error of something in the state directory, with what that directory is and how to have another.
[[nodiscard]] Error unusable_state(Error reason, const Installation& installation);

}  // namespace startrail::app
