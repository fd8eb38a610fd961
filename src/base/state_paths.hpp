// Where this program keeps things.
#pragma once

#include <filesystem>

#include "base/error.hpp"
#include "base/process.hpp"

namespace startrail::base {

// $STARTRAIL_HOME, else /var/lib/startrail for root, $XDG_DATA_HOME/startrail (~/.local/share) for users.
struct StatePaths {
  std::filesystem::path root;
  [[nodiscard]] std::filesystem::path store() const { return root / "store"; }
  [[nodiscard]] std::filesystem::path runs() const { return root / "runs"; }
  [[nodiscard]] std::filesystem::path volumes() const { return root / "volumes"; }
  [[nodiscard]] std::filesystem::path database() const { return root / "state.db"; }
  [[nodiscard]] std::filesystem::path snapshots() const { return root / "snapshots"; }
  [[nodiscard]] std::filesystem::path instances() const { return root / "instances"; }
};

// Errors: invalid_input when no absolute place can be found (no HOME, relative STARTRAIL_HOME).
[[nodiscard]] Result<StatePaths> state_paths(const Environment& environment);
// $XDG_CONFIG_HOME/startrail, else ~/.config/startrail.
[[nodiscard]] std::filesystem::path config_directory(const Environment& environment);

}  // namespace startrail::base
