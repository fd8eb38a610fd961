#include "app/diff_runs.hpp"

#include <fmt/format.h>

#include "app/diff_code.hpp"
#include "app/list_runs.hpp"
#include "base/document.hpp"

namespace startrail::app {
namespace {

struct Side {
  run::RunSpec spec;
  Json spec_json, record, status;
};

Result<Side> read_side(run::RunStore& store, const std::string& id) {
  Side side{.spec = TRY(store.spec(id))};
  const Json whole = TRY(store.whole_record(id));
  side.spec_json = base::member(whole, "spec");
  side.record = base::member(whole, "record");
  side.status = base::member(whole, "status");
  return side;
}

Json both_if_different(const Json& a, const Json& b) {
  if (a == b) return nullptr;
  return Json{{"a", a}, {"b", b}};
}

Json environment_json(const base::Environment& environment) {
  Json result = Json::object();
  for (const auto& [name, value] : environment) result[name] = value;
  return result;
}

// What changes by the minute says nothing about a machine.
Json lasting_facts(Json machine) {
  if (!machine.is_object()) return machine;
  for (const char* passing : {"memory_available", "memory_available_bytes", "disk_free", "disk_free_bytes", "notes"})
    machine.erase(passing);
  return machine;
}

Json result_of(const Side& side) {
  Json result;
  for (const char* key : {"state", "exit_code", "signal", "cause", "started", "ended", "peak_memory"})
    if (const Json& value = base::member(side.status, key); !value.is_null()) result[key] = value;
  return result;
}

bool differs(const Json& differences) {
  for (const auto& section : differences)
    if (!section.is_null()) return true;
  return false;
}

// What held the run, in one flat object.
Json limits_of(const Json& spec) {
  Json result = base::member(spec, "limits");
  if (!result.is_object()) result = Json::object();
  for (const char* key : {"network", "mounts", "gpus", "isolation", "stop_grace_seconds"})
    result[key] = base::member(spec, key);
  return result;
}

}  // namespace

Json diff_members(const Json& a, const Json& b) {
  const auto empty = Json::object();
  Json added = empty, removed = empty, changed = empty;
  for (const auto& [key, value] : (b.is_object() ? b : empty).items())
    if (!a.is_object() || !a.contains(key)) added[key] = value;
  for (const auto& [key, value] : (a.is_object() ? a : empty).items()) {
    if (!b.is_object() || !b.contains(key))
      removed[key] = value;
    else if (b[key] != value)
      changed[key] = Json{{"a", value}, {"b", b[key]}};
  }
  if (added.empty() && removed.empty() && changed.empty()) return nullptr;
  return Json{{"added", added}, {"removed", removed}, {"changed", changed}};
}

Json packages_of(const std::string& lock_toml) {
  Json packages = Json::object();
  const auto document = base::parse_toml(lock_toml, "the lock");
  if (!document) return packages;
  for (const auto& package : base::member(document->root, "packages"))
    packages[base::string_at(package, "name")] = base::string_at(package, "version");
  return packages;
}

Result<Json> diff_runs(const Installation& installation, const std::string& name_a, const std::string& name_b,
                       Reporter& reporter) {
  auto store = TRY(open_runs(installation, reporter));
  const std::string id_a = TRY(store.find(name_a));
  const std::string id_b = TRY(store.find(name_b));
  const Side a = TRY(read_side(store, id_a));
  const Side b = TRY(read_side(store, id_b));
  Json differences;
  differences["command"] = both_if_different(base::shell_join(a.spec.command), base::shell_join(b.spec.command));
  // A repeated run has a folder of its own by design.
  const bool is_repetition = b.spec.rerun_of == id_a || a.spec.rerun_of == id_b;
  differences["workspace"] =
      is_repetition ? Json(nullptr) : both_if_different(a.spec.workspace.string(), b.spec.workspace.string());
  differences["packages"] = diff_members(packages_of(a.spec.lock_toml), packages_of(b.spec.lock_toml));
  differences["lock"] = both_if_different(a.spec.lock_digest, b.spec.lock_digest);
  differences["image"] = both_if_different(a.spec.image_id, b.spec.image_id);
  differences["code"] = TRY(diff_code(installation.paths.snapshots(), a.spec.snapshot, b.spec.snapshot));
  differences["environment"] = diff_members(environment_json(a.spec.environment), environment_json(b.spec.environment));
  differences["limits"] = diff_members(limits_of(a.spec_json), limits_of(b.spec_json));
  differences["machine"] =
      diff_members(lasting_facts(base::member(a.record, "machine")), lasting_facts(base::member(b.record, "machine")));
  differences["git"] = diff_members(base::member(a.record, "git"), base::member(b.record, "git"));
  return Json{{"a", id_a},
              {"b", id_b},
              {"same", !differs(differences)},
              {"differences", differences},
              {"results", {{"a", result_of(a)}, {"b", result_of(b)}}}};
}

}  // namespace startrail::app
