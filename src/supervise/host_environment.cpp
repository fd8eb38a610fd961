#include "supervise/host_environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "image/image.hpp"
#include "supervise/host_python.hpp"

namespace startrail::supervise {
namespace {

// What programs on the host need from it. Its Python variables are left behind: they speak of another Python.
bool is_taken_over(std::string_view name) {
  static constexpr std::array<std::string_view, 9> k_names{"PATH",    "LANG", "LANGUAGE",        "TERM",     "SHELL",
                                                           "COLUMNS", "TZ",   "LD_LIBRARY_PATH", "CUDA_HOME"};
  static constexpr std::array<std::string_view, 4> k_prefixes{"LC_", "NVIDIA_", "SLURM_", "NCCL_"};
  return std::ranges::find(k_names, name) != k_names.end() ||
         std::ranges::any_of(k_prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

base::Environment taken_over() {
  base::Environment environment = base::current_environment();
  std::erase_if(environment, [](const auto& entry) { return !is_taken_over(entry.first); });
  environment.try_emplace("PATH", "/usr/local/bin:/usr/bin:/bin");
  return environment;
}

// "/mnt/personal/cache" → "<personal>/cache"; only whole path components count.
std::string host_name(std::string value, std::string_view inside, const fs::path& outside) {
  if (!value.starts_with(inside) || (value.size() > inside.size() && value[inside.size()] != '/')) return value;
  return outside.string() + value.substr(inside.size());
}

}  // namespace

Result<base::Environment> host_environment(const RunPlace& place, const volume::Plan& volumes) {
  base::Environment environment = taken_over();
  if (place.spec.image_id.empty()) return environment;
  const image::Image image = TRY(image::open(place.paths.store(), place.spec.image_id));
  const HostPython python = TRY(
      make_host_python(image, place.scratch() / "environment", "/usr/bin:/usr/local/bin:" + environment.at("PATH")));
  for (const auto& [key, value] : image.environment)
    if (!value.starts_with('/')) environment[key] = value;  // the others are paths inside
  environment["PATH"] = python.programs.string() + ":" + taken_over().at("PATH");
  environment["VIRTUAL_ENV"] = python.root;
  // The image's tree must not be written to; bytecode is kept where the next run finds it.
  environment["PYTHONPYCACHEPREFIX"] = (volumes.personal / "cache/pycache").string();
  return environment;
}

base::Environment host_names(const volume::Plan& volumes, base::Environment environment) {
  for (auto& [key, value] : environment) {
    value = host_name(std::move(value), volume::k_personal, volumes.personal);
    value = host_name(std::move(value), volume::k_temp, volumes.temp);
    value = host_name(std::move(value), volume::k_datasets, volumes.datasets);
    value = host_name(std::move(value), volume::k_workspace, volumes.workspace);
  }
  return environment;
}

std::vector<std::string> resolved_on(const base::Environment& environment, std::vector<std::string> command) {
  if (command.front().find('/') != std::string::npos) return command;
  std::string_view search = environment.at("PATH");
  while (!search.empty()) {
    const std::size_t end = std::min(search.find(':'), search.size());
    const fs::path candidate = fs::path(search.substr(0, end)) / command.front();
    std::error_code ignored;
    if (::access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate, ignored)) {
      command.front() = candidate;
      return command;
    }
    search.remove_prefix(std::min(end + 1, search.size()));
  }
  return command;
}

}  // namespace startrail::supervise
