#include "supervise/container_plan.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/process.hpp"
#include "image/image.hpp"
#include "init/service.hpp"
#include "sandbox/root_filesystem.hpp"
#include "supervise/host_environment.hpp"
#include "volume/volume.hpp"

namespace startrail::supervise {
namespace {

using sandbox::Access;
using sandbox::Ownership;

// Whose personal volume it is: the caller's; root's runs stand for the owner of the workspace, as their container's
// user does.
std::string personal_user(const std::filesystem::path& workspace) {
  uid_t uid = ::geteuid();
  struct stat status{};
  if (uid == 0 && ::stat(workspace.c_str(), &status) == 0) uid = status.st_uid;
  const passwd* entry = ::getpwuid(uid);
  return entry == nullptr ? fmt::format("uid-{}", uid) : std::string(entry->pw_name);
}

// The network's ways out belong to the machine, not to the image.
base::Environment proxies(sandbox::Network network) {
  static constexpr std::array<const char*, 8> k_names{"http_proxy", "https_proxy", "no_proxy", "all_proxy",
                                                      "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"};
  base::Environment result;
  if (network == sandbox::Network::none) return result;
  for (const char* name : k_names)
    if (auto value = base::environment_variable(name)) result.emplace(name, std::move(*value));
  return result;
}

void override_with(base::Environment& environment, const base::Environment& stronger) {
  for (const auto& [key, value] : stronger) environment[key] = value;
}

// From the weakest to the strongest: machine, image, volumes, user, and what the run is known by: leftovers are found
// by TRAIL_RUN_ID, whatever an old record says.
base::Environment inner_environment(const run::RunSpec& spec, const base::Environment& image,
                                    const base::Environment& volumes) {
  base::Environment environment = proxies(spec.network);
  environment["PYTHONUNBUFFERED"] = "1";  // the log is a pipe: lines should arrive when they are printed
  override_with(environment, image);
  override_with(environment, volumes);
  for (const auto& [key, value] : spec.environment)
    if (!key.starts_with("TRAIL_")) environment[key] = value;
  environment["TRAIL_RUN_ID"] = spec.id;
  environment["TRAIL_IMAGE"] = spec.image_id;
  return environment;
}

std::vector<sandbox::Mount> volume_mounts(const volume::Plan& volumes, const std::optional<sandbox::Place>& workspace) {
  return {{volumes.workspace, volume::k_workspace, Access::read_write, Ownership::caller, workspace},
          {volumes.personal, volume::k_personal, Access::read_write, Ownership::caller},
          {volumes.datasets, volume::k_datasets, Access::read_only, Ownership::as_it_is},
          {volumes.temp, volume::k_temp, Access::read_write, Ownership::caller}};
}

// Its first process is the service that everything else is started by; all that its user changes is kept.
void become_instance(sandbox::ContainerSpec& container, const RunPlace& place) {
  const run::OfInstance& of = *place.spec.instance;
  const auto own = instance::place_of(place.paths, of.name);
  container.argv = {sandbox::k_init_inside, init::k_serve};
  container.hostname = of.name;
  container.layers.insert(container.layers.end(), of.layers.begin(), of.layers.end());
  container.mounts.push_back({own.inside(), init::k_service_folder, Access::read_write, Ownership::caller});
  container.mounts.push_back({own.server(), instance::k_server_folder, Access::read_only, Ownership::caller});
  container.layer_owner = sandbox::LayerOwner::container_user;
  container.identity_of = "instance " + of.key;
}

Result<ContainerPlan> plan_isolated(const RunPlace& place, const machine::Machine& machine,
                                    const volume::Plan& volumes) {
  const run::RunSpec& spec = place.spec;
  ContainerPlan plan{.support = TRY(sandbox::probe(machine))};
  const image::Image image = TRY(image::open(place.paths.store(), spec.image_id));
  plan.spec = {
      .id = spec.id,
      .layers = image.layers,
      .scratch = place.scratch(),
      .argv = spec.command,
      .environment = inner_environment(spec, image.environment, volumes.environment),
      .directory = volume::k_workspace,
      .mounts = volume_mounts(volumes, spec.workspace_place),
      .limits = spec.limits,
      .network = spec.network,
      .scratch_after = spec.scratch_after,
      .owner_reference = volumes.workspace,
  };
  plan.spec.mounts.insert(plan.spec.mounts.end(), spec.extra_mounts.begin(), spec.extra_mounts.end());
  if (spec.instance) become_instance(plan.spec, place);
  if (!spec.gpus.empty()) plan.spec.gpus = TRY(machine::cdi_edits(place.host, machine, spec.gpus));
  return plan;
}

std::string visible_gpus(const std::vector<int>& gpus) {
  return fmt::format("{}", fmt::join(gpus, ","));
}

Result<ContainerPlan> plan_on_host(const RunPlace& place, const volume::Plan& volumes) {
  const run::RunSpec& spec = place.spec;
  base::Environment environment = TRY(host_environment(place, volumes));
  override_with(environment, host_names(volumes, inner_environment(spec, {}, volumes.environment)));
  // Nothing hides the other GPUs without a container, but CUDA itself can be told.
  environment.emplace("CUDA_VISIBLE_DEVICES", visible_gpus(spec.gpus));
  return ContainerPlan{
      .support = {.mode = sandbox::Mode::none,
                  .limits_by =
                      "not isolated: memory by the supervisor's watch, CPUs by affinity, processes not at all"},
      .spec = {.id = spec.id,
               .scratch = place.scratch(),
               .argv = resolved_on(environment, spec.command),
               .environment = std::move(environment),
               .directory = volumes.workspace,
               .limits = spec.limits,
               .network = spec.network,
               .scratch_after = spec.scratch_after,
               .owner_reference = volumes.workspace},
  };
}

}  // namespace

Result<ContainerPlan> plan_container(const RunPlace& place, const machine::Machine& machine) {
  const run::RunSpec& spec = place.spec;
  const volume::Plan volumes =
      TRY(volume::plan(place.paths.volumes(), spec.workspace, place.directory, spec.id, personal_user(spec.workspace)));
  if (spec.isolation == "none") return plan_on_host(place, volumes);
  return plan_isolated(place, machine, volumes);
}

}  // namespace startrail::supervise
