// Starting the runtime, or init without one, with exactly the descriptors it needs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/files.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

struct Launch {
  fs::path program;
  std::vector<std::string> arguments;    // argv, arguments[0] included
  std::vector<std::string> environment;  // "KEY=value"
  std::optional<fs::path> directory;
  Stdio stdio;      // -1: /dev/null
  int socket = -1;  // becomes init::k_socket; nothing else is inherited
};
// Forks and executes; returns once the exec has succeeded. Errors: not_found, permission, internal.
[[nodiscard]] Result<pid_t> launch(const Launch& launch);

// Waits for this child; its wait(2) status.
[[nodiscard]] Result<int> wait_for(pid_t pid);

}  // namespace startrail::sandbox
