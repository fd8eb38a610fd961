// The four places a run sees: workspace, datasets, personal, temp.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"

namespace startrail::volume {

// Where things are inside; the same on every engine.
inline constexpr const char* k_workspace = "/workspace";
inline constexpr const char* k_datasets = "/mnt/datasets";
inline constexpr const char* k_personal = "/mnt/personal";
inline constexpr const char* k_temp = "/mnt/temp";

struct Plan {
  std::filesystem::path workspace;    // host paths
  std::filesystem::path datasets;     // <volumes>/datasets, shared, read-only inside
  std::filesystem::path personal;     // <volumes>/personal/<user>, persistent
  std::filesystem::path temp;         // <run>/temp, emptied with the run
  std::filesystem::path outputs;      // <personal>/runs/<run id>/output: TRAIL_OUTPUT_DIR
  std::filesystem::path checkpoints;  // <personal>/runs/<run id>/checkpoints: TRAIL_CHECKPOINT_DIR
  base::Environment environment;      // TRAIL_OUTPUT_DIR, TRAIL_CHECKPOINT_DIR, HOME, TMPDIR, XDG_CACHE_HOME, HF_HOME,
                                      // TORCH_HOME, PIP_CACHE_DIR, TRITON_CACHE_DIR as paths inside
};
// Makes the directories (0700 for personal). Nothing that exists is chowned or removed, and no link that a run could
// have left in its personal volume is followed. Errors: invalid_input (the user's name), not_found (the workspace),
// conflict (a link or a file where a folder must be).
[[nodiscard]] Result<Plan> plan(const std::filesystem::path& volumes, const std::filesystem::path& workspace,
                                const std::filesystem::path& run_directory, const std::string& run_id,
                                const std::string& user);

}  // namespace startrail::volume
