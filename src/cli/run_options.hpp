// The options that `run` and `up` share: where, in what, and within which limits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/run_project.hpp"
#include "cli/command_line.hpp"
#include "cli/project_options.hpp"

namespace startrail::cli {

struct RunOptions {
  ProjectOptions project;
  std::optional<std::string> directory, image, gpus, memory, cpus, pids, shm_size, network, grace;
  std::vector<std::string> environment, environment_files, mounts;

  void add_to(CommandLine& line);
  // All but the network. `caller` is the caller's environment. Errors: usage, not_found, invalid_input.
  [[nodiscard]] Result<app::RunRequest> request(const base::Environment& caller) const;
};

}  // namespace startrail::cli
