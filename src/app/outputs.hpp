// Where a run's results lie on this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "app/installation.hpp"

namespace startrail::app {

// The host's folder that the run saw as TRAIL_OUTPUT_DIR; nullopt before it was made.
[[nodiscard]] std::optional<std::filesystem::path> output_folder(const Installation& installation,
                                                                 const std::string& run_id);
[[nodiscard]] std::optional<std::filesystem::path> checkpoint_folder(const Installation& installation,
                                                                     const std::string& run_id);
// The folder if something was written there.
[[nodiscard]] std::optional<std::filesystem::path> written(std::optional<std::filesystem::path> folder);

}  // namespace startrail::app
