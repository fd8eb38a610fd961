#include "app/outputs.hpp"

#include "base/files.hpp"

namespace startrail::app {
namespace {

// volumes/personal/<user>/runs/<id>/<name>: the user is the one whom the run belonged to, not always the caller.
std::optional<fs::path> folder_of_run(const Installation& installation, const std::string& run_id, const char* name) {
  std::error_code failed;
  for (const auto& person : fs::directory_iterator(installation.paths.volumes() / "personal", failed)) {
    fs::path folder = person.path() / "runs" / run_id / name;
    if (fs::is_directory(folder, failed)) return folder;
  }
  return std::nullopt;
}

}  // namespace

std::optional<fs::path> output_folder(const Installation& installation, const std::string& run_id) {
  return folder_of_run(installation, run_id, "output");
}

std::optional<fs::path> checkpoint_folder(const Installation& installation, const std::string& run_id) {
  return folder_of_run(installation, run_id, "checkpoints");
}

std::optional<fs::path> written(std::optional<fs::path> folder) {
  std::error_code failed;
  if (!folder || fs::is_empty(*folder, failed) || failed) return std::nullopt;
  return folder;
}

}  // namespace startrail::app
