#include "cli/run_options.hpp"

namespace startrail::cli {
namespace {

// Smaller ones can't hold an interpreter, and a runtime refuses them.
constexpr Bytes k_least_memory{6U << 20U};
constexpr Bytes k_least_shm{64U << 10U};

}  // namespace

void RunOptions::add_to(CommandLine& line) {
  line.value("-C,--directory", directory, "DIR", "The project's folder, instead of the present one");
  line.value("--image", image, "IMAGE", "Run in this image instead of locking the project; a registry's is pulled");
  project.add_to(line);
  line.value("--gpus", gpus, "GPUS", "all, none, a number, or indexes such as 0,1");
  line.value("--memory", memory, "SIZE", "Memory limit, e.g. 16GiB");
  line.value("--cpus", cpus, "N", "CPU limit, e.g. 1.5");
  line.value("--pids", pids, "N", "Limit on processes and threads");
  line.value("--shm-size", shm_size, "SIZE", "Size of /dev/shm");
  line.values("-e,--env", environment, "K[=V]", "Set a variable, or pass on the shell's own");
  line.values("--env-file", environment_files, "FILE", "Read variables from a file");
  line.values("--mount", mounts, "SRC:DST[:ro]", "Show a file or folder inside as DST");
  line.value("--network", network, "host|none", "Network inside (default: host)");
  line.value("--grace", grace, "TIME", "Time between TERM and KILL when stopping (30s)");
}

Result<app::RunRequest> RunOptions::request(const base::Environment& caller) const {
  app::RunRequest request;
  request.project = TRY(project.request(directory.value_or(".")));
  request.image = image;
  if (gpus) request.gpus = TRY(app::parse_gpus(*gpus));
  if (memory) request.memory = TRY(app::parse_limit("--memory", *memory, k_least_memory));
  if (shm_size) request.shm_size = TRY(app::parse_limit("--shm-size", *shm_size, k_least_shm));
  if (cpus) request.cpus = TRY(app::parse_cpus(*cpus));
  if (pids) request.pids = TRY(app::parse_pids(*pids));
  if (grace) request.grace_seconds = TRY(app::parse_grace(*grace));
  for (const auto& file : environment_files) TRY(app::add_environment_file(request.environment, file, caller));
  for (const auto& text : environment) TRY(app::add_environment(request.environment, text, caller));
  for (const auto& text : mounts) request.mounts.push_back(TRY(app::parse_mount(text)));
  return request;
}

}  // namespace startrail::cli
