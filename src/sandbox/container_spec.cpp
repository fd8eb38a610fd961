// ContainerSpec and Support as JSON: how they reach the process that starts the container.
#include <fmt/format.h>

#include "base/json.hpp"
#include "sandbox/container_request.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {
namespace {

Json path_list(const std::vector<fs::path>& paths) {
  Json list = Json::array();
  for (const auto& path : paths) list.push_back(path.string());
  return list;
}

Json mount_json(const Mount& mount) {
  return {{"source", mount.source.string()},
          {"target", mount.target},
          {"read_only", mount.access == Access::read_only},
          {"caller_owned", mount.ownership == Ownership::caller},
          {"expected", to_json(mount.expected)}};
}

Mount mount_from(const Json& json) {
  return {.source = base::string_at(json, "source"),
          .target = base::string_at(json, "target"),
          .access = base::boolean_at(json, "read_only") ? Access::read_only : Access::read_write,
          .ownership = base::boolean_at(json, "caller_owned") ? Ownership::caller : Ownership::as_it_is,
          .expected = place_from_json(base::member(json, "expected"))};
}

Json limits_json(const Limits& limits) {
  return {{"memory", limits.memory ? Json(limits.memory->count) : Json()},
          {"cpus", base::or_null(limits.cpus)},
          {"pids", base::or_null(limits.pids)},
          {"shm_size", limits.shm_size.count}};
}

Limits limits_from(const Json& json) {
  Limits limits;
  if (base::member(json, "memory").is_number())
    limits.memory = Bytes{base::member(json, "memory").get<std::uint64_t>()};
  if (base::member(json, "cpus").is_number()) limits.cpus = base::number_at(json, "cpus");
  if (base::member(json, "pids").is_number()) limits.pids = static_cast<int>(base::integer_at(json, "pids"));
  limits.shm_size = {static_cast<std::uint64_t>(base::integer_at(json, "shm_size"))};
  return limits;
}

Json gpus_json(const machine::CdiEdits& edits) {
  Json devices = Json::array();
  for (const auto& device : edits.devices)
    devices.push_back({{"path", device.path},
                       {"host_path", device.host_path.string()},
                       {"major", device.major},
                       {"minor", device.minor}});
  Json files = Json::array();
  for (const auto& file : edits.mounts)
    files.push_back({{"host_path", file.host_path.string()}, {"container_path", file.container_path}});
  Json environment = Json::array();
  for (const auto& [key, value] : edits.environment) environment.push_back(Json::array({key, value}));
  return {{"devices", devices},
          {"mounts", files},
          {"library_directories", edits.library_directories},
          {"environment", environment}};
}

machine::CdiEdits gpus_from(const Json& json) {
  machine::CdiEdits edits;
  for (const auto& device : base::member(json, "devices"))
    edits.devices.push_back({.path = base::string_at(device, "path"),
                             .host_path = base::string_at(device, "host_path"),
                             .major = static_cast<unsigned>(base::integer_at(device, "major")),
                             .minor = static_cast<unsigned>(base::integer_at(device, "minor"))});
  for (const auto& file : base::member(json, "mounts"))
    edits.mounts.push_back(
        {.host_path = base::string_at(file, "host_path"), .container_path = base::string_at(file, "container_path")});
  edits.library_directories = base::strings_at(json, "library_directories");
  for (const auto& pair : base::member(json, "environment")) {
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
      edits.environment.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  return edits;
}

constexpr std::string_view k_mode_names[] = {"root", "rootless", "none"};

}  // namespace

Json to_json(const std::optional<Place>& place) {
  if (!place) return {};
  return {{"device", place->device}, {"inode", place->inode}, {"owner", place->owner}};
}

std::optional<Place> place_from_json(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  return Place{.device = static_cast<std::uint64_t>(base::integer_at(json, "device")),
               .inode = static_cast<std::uint64_t>(base::integer_at(json, "inode")),
               .owner = static_cast<unsigned>(base::integer_at(json, "owner"))};
}

Json to_json(const ContainerSpec& spec) {
  Json mounts = Json::array();
  for (const auto& mount : spec.mounts) mounts.push_back(mount_json(mount));
  return {{"id", spec.id},
          {"layers", path_list(spec.layers)},
          {"scratch", spec.scratch.string()},
          {"argv", spec.argv},
          {"environment", spec.environment},
          {"directory", spec.directory},
          {"hostname", spec.hostname},
          {"mounts", mounts},
          {"limits", limits_json(spec.limits)},
          {"network", spec.network == Network::none ? "none" : "host"},
          {"gpus", gpus_json(spec.gpus)},
          {"scratch_after", spec.scratch_after == Scratch::discarded ? "discarded" : "kept"},
          {"owner_reference", spec.owner_reference.string()},
          {"layers_of_user", spec.layer_owner == LayerOwner::container_user},
          {"identity_of", spec.identity_of}};
}

Result<ContainerSpec> container_spec_from_json(const Json& json) {
  ContainerSpec spec{
      .id = base::string_at(json, "id"),
      .scratch = base::string_at(json, "scratch"),
      .argv = base::strings_at(json, "argv"),
      .directory = base::string_at(json, "directory", "/"),
      .hostname = base::string_at(json, "hostname", "startrail"),
      .limits = limits_from(base::member(json, "limits")),
      .network = base::string_at(json, "network") == "none" ? Network::none : Network::host,
      .gpus = gpus_from(base::member(json, "gpus")),
      .scratch_after = base::string_at(json, "scratch_after") == "discarded" ? Scratch::discarded : Scratch::kept,
      .owner_reference = base::string_at(json, "owner_reference"),
      .layer_owner = base::boolean_at(json, "layers_of_user") ? LayerOwner::container_user : LayerOwner::root,
      .identity_of = base::string_at(json, "identity_of")};
  if (spec.id.empty() || spec.argv.empty() || spec.scratch.empty())
    return fail(ErrorCode::corrupt, "a container's description lacks its id, command or scratch folder");
  for (const auto& layer : base::strings_at(json, "layers")) spec.layers.emplace_back(layer);
  for (const auto& mount : base::member(json, "mounts")) spec.mounts.push_back(mount_from(mount));
  for (const auto& [key, value] : base::member(json, "environment").items()) {
    if (value.is_string()) spec.environment[key] = value.get<std::string>();
  }
  return spec;
}

Json to_json(const Support& support) {
  return {{"mode", k_mode_names[static_cast<std::size_t>(support.mode)]},
          {"runtime", support.runtime.string()},
          {"runtime_name", support.runtime_name},
          {"runtime_version", support.runtime_version},
          {"cgroup_limits", support.cgroup_limits},
          {"limits_by", support.limits_by}};
}

Support support_from_json(const Json& json) {
  Support support{.runtime = base::string_at(json, "runtime"),
                  .runtime_name = base::string_at(json, "runtime_name"),
                  .runtime_version = base::string_at(json, "runtime_version"),
                  .cgroup_limits = base::boolean_at(json, "cgroup_limits"),
                  .limits_by = base::string_at(json, "limits_by")};
  const std::string mode = base::string_at(json, "mode", "none");
  support.mode = mode == "root" ? Mode::root : mode == "rootless" ? Mode::rootless : Mode::none;
  return support;
}

}  // namespace startrail::sandbox
