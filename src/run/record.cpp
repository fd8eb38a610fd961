#include "run/record.hpp"

#include <fmt/format.h>

#include "sandbox/container_request.hpp"

namespace startrail::run {
namespace {

using base::integer_at;
using base::member;
using base::or_null;
using base::string_at;
using base::strings_at;

template <class T>
std::optional<T> optional_number(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  if (!value.is_number()) return std::nullopt;
  return value.get<T>();
}

Json bytes_or_null(const std::optional<Bytes>& bytes) {
  return bytes ? Json(bytes->count) : Json(nullptr);
}

std::optional<Bytes> optional_bytes(const Json& object, std::string_view key) {
  const auto count = optional_number<std::uint64_t>(object, key);
  return count ? std::optional(Bytes{*count}) : std::nullopt;
}

Json time_or_null(const std::optional<base::Time>& time) {
  return time ? Json(base::to_text(*time)) : Json(nullptr);
}

Result<std::optional<base::Time>> optional_time(const Json& object, std::string_view key) {
  const auto text = base::optional_string_at(object, key);
  if (!text) return std::nullopt;
  return TRY(base::parse_time(*text));
}

Json limits_to_json(const sandbox::Limits& limits) {
  return {{"memory", bytes_or_null(limits.memory)},
          {"cpus", or_null(limits.cpus)},
          {"pids", or_null(limits.pids)},
          {"shm_size", limits.shm_size.count}};
}

sandbox::Limits limits_from_json(const Json& json) {
  return {.memory = optional_bytes(json, "memory"),
          .cpus = optional_number<double>(json, "cpus"),
          .pids = optional_number<int>(json, "pids"),
          .shm_size = optional_bytes(json, "shm_size").value_or(Bytes{0})};
}

Json mount_to_json(const sandbox::Mount& mount) {
  return {{"source", mount.source.string()},
          {"target", mount.target},
          {"read_only", mount.access == sandbox::Access::read_only},
          {"owned_by_caller", mount.ownership == sandbox::Ownership::caller}};
}

sandbox::Mount mount_from_json(const Json& json) {
  using enum sandbox::Access;
  return {.source = string_at(json, "source"),
          .target = string_at(json, "target"),
          .access = base::boolean_at(json, "read_only", true) ? read_only : read_write,
          .ownership =
              base::boolean_at(json, "owned_by_caller") ? sandbox::Ownership::caller : sandbox::Ownership::as_it_is};
}

Json instance_to_json(const std::optional<OfInstance>& instance) {
  if (!instance) return nullptr;
  Json layers = Json::array();
  for (const auto& layer : instance->layers) layers.push_back(layer.string());
  return {{"name", instance->name}, {"key", instance->key}, {"layers", std::move(layers)}};
}

std::optional<OfInstance> instance_from_json(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  OfInstance instance{.name = string_at(json, "name"), .key = string_at(json, "key"), .layers = {}};
  for (const auto& layer : strings_at(json, "layers")) instance.layers.emplace_back(layer);
  return instance;
}

Json identity_to_json(const base::ProcessIdentity& identity) {
  if (identity.pid == 0) return nullptr;
  return {{"boot_id", identity.boot_id},         {"pid", identity.pid},
          {"start_ticks", identity.start_ticks}, {"machine", identity.place.machine},
          {"host", identity.place.host},         {"pid_namespace", identity.place.pid_namespace}};
}

base::ProcessIdentity identity_from_json(const Json& json) {
  return {.boot_id = string_at(json, "boot_id"),
          .pid = static_cast<pid_t>(integer_at(json, "pid")),
          .start_ticks = static_cast<unsigned long long>(integer_at(json, "start_ticks")),
          .place = {.machine = string_at(json, "machine"),
                    .host = string_at(json, "host"),
                    .pid_namespace = static_cast<unsigned long long>(integer_at(json, "pid_namespace"))}};
}

}  // namespace

Json to_json(const RunSpec& spec) {
  Json mounts = Json::array();
  for (const auto& mount : spec.extra_mounts) mounts.push_back(mount_to_json(mount));
  Json environment = Json::object();
  for (const auto& [key, value] : spec.environment) environment[key] = value;
  return {{"id", spec.id},
          {"command", spec.command},
          {"workspace", spec.workspace.string()},
          {"workspace_place", sandbox::to_json(spec.workspace_place)},
          {"image", spec.image_id},
          {"lock_digest", spec.lock_digest},
          {"lock", spec.lock_toml},
          {"snapshot", spec.snapshot},
          {"engine", spec.engine},
          {"isolation", spec.isolation},
          {"limits", limits_to_json(spec.limits)},
          {"network", spec.network == sandbox::Network::none ? "none" : "host"},
          {"mounts", std::move(mounts)},
          {"environment", std::move(environment)},
          {"gpus", spec.gpus},
          {"gpus_requested_all", spec.gpus_requested_all},
          {"stop_grace_seconds", spec.stop_grace_seconds},
          {"scratch_after", spec.scratch_after == sandbox::Scratch::kept ? "kept" : "discarded"},
          {"rerun_of", spec.rerun_of},
          {"instance", instance_to_json(spec.instance)}};
}

Result<RunSpec> run_spec_from_json(const Json& json) {
  RunSpec spec{
      .id = string_at(json, "id"),
      .command = strings_at(json, "command"),
      .workspace = string_at(json, "workspace"),
      .workspace_place = sandbox::place_from_json(member(json, "workspace_place")),
      .image_id = string_at(json, "image"),
      .lock_digest = string_at(json, "lock_digest"),
      .lock_toml = string_at(json, "lock"),
      .snapshot = string_at(json, "snapshot"),
      .engine = string_at(json, "engine", "local"),
      .isolation = string_at(json, "isolation"),
      .limits = limits_from_json(member(json, "limits")),
      .network = string_at(json, "network") == "none" ? sandbox::Network::none : sandbox::Network::host,
      .gpus_requested_all = base::boolean_at(json, "gpus_requested_all", true),
      .stop_grace_seconds = static_cast<int>(integer_at(json, "stop_grace_seconds", 30)),
      .scratch_after =
          string_at(json, "scratch_after") == "kept" ? sandbox::Scratch::kept : sandbox::Scratch::discarded,
      .rerun_of = string_at(json, "rerun_of"),
      .instance = instance_from_json(member(json, "instance")),
  };
  if (spec.id.empty() || spec.command.empty() || !spec.workspace.is_absolute())
    return fail(ErrorCode::corrupt, "the run's specification lacks its id, command or workspace");
  for (const Json& mount : member(json, "mounts")) spec.extra_mounts.push_back(mount_from_json(mount));
  for (const auto& [key, value] : member(json, "environment").items())
    if (value.is_string()) spec.environment.emplace(key, value.get<std::string>());
  for (const Json& gpu : member(json, "gpus"))
    if (gpu.is_number_integer()) spec.gpus.push_back(gpu.get<int>());
  return spec;
}

Json to_json(const Circumstances& circumstances) {
  return {{"created", base::to_text(circumstances.created)},
          {"user", circumstances.user},
          {"hostname", circumstances.hostname},
          {"machine", circumstances.machine},
          {"git", circumstances.git},
          {"image", circumstances.image},
          {"seeds", circumstances.seeds},
          {"limits_by", circumstances.limits_by},
          {"notes", circumstances.notes}};
}

Json error_to_json(const Error& error) {
  return {{"code", base::name(error.code)},
          {"message", error.message},
          {"context", error.context},
          {"hints", error.hints},
          {"detail", error.detail}};
}

Error error_from_json(const Json& json) {
  Error error{.code = ErrorCode::internal,
              .message = string_at(json, "message"),
              .context = strings_at(json, "context"),
              .hints = strings_at(json, "hints"),
              .detail = string_at(json, "detail")};
  const std::string code = string_at(json, "code");
  for (int candidate = 0; candidate <= static_cast<int>(ErrorCode::internal); ++candidate)
    if (base::name(static_cast<ErrorCode>(candidate)) == code) error.code = static_cast<ErrorCode>(candidate);
  return error;
}

Json to_json(const Status& status) {
  return {{"state", name(status.state)},
          {"supervisor", identity_to_json(status.supervisor)},
          {"started", time_or_null(status.started)},
          {"running", time_or_null(status.running)},
          {"ended", time_or_null(status.ended)},
          {"exit_code", or_null(status.exit_code)},
          {"signal", or_null(status.signal)},
          {"cause", status.cause.empty() ? Json(nullptr) : Json(status.cause)},
          {"peak_memory", bytes_or_null(status.peak_memory)},
          {"remarks", status.remarks},
          {"error", status.error ? error_to_json(*status.error) : Json(nullptr)},
          {"findings", status.findings}};
}

Result<Status> status_from_json(const Json& json) {
  const auto state = state_from_name(string_at(json, "state"));
  if (!state) return fail(ErrorCode::corrupt, fmt::format("`{}` is not a run's state", string_at(json, "state")));
  Status status{.state = *state, .supervisor = identity_from_json(member(json, "supervisor"))};
  status.started = TRY(optional_time(json, "started"));
  status.running = TRY(optional_time(json, "running"));
  status.ended = TRY(optional_time(json, "ended"));
  status.exit_code = optional_number<int>(json, "exit_code");
  status.signal = optional_number<int>(json, "signal");
  status.cause = string_at(json, "cause");
  status.peak_memory = optional_bytes(json, "peak_memory");
  status.remarks = strings_at(json, "remarks");
  if (const Json& error = member(json, "error"); error.is_object()) status.error = error_from_json(error);
  if (const Json& findings = member(json, "findings"); findings.is_array()) status.findings = findings;
  return status;
}

}  // namespace startrail::run
