// The options that `lock`, `run` and `image build` share: what to lock, and how.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/lock_project.hpp"
#include "cli/command_line.hpp"

namespace startrail::cli {

struct ProjectOptions {
  bool cpu = false;
  bool upgrade = false;
  std::optional<std::string> python, framework;
  std::vector<std::string> requirement_files;

  void add_to(CommandLine& line);
  // Only those that choosing depends on.
  void add_choice_to(CommandLine& line);
  // Errors: usage, invalid_input, not_found (a requirements file).
  [[nodiscard]] Result<app::LockRequest> request(const std::string& folder) const;
};

}  // namespace startrail::cli
