#include "app/instances.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "app/instance_files.hpp"
#include "app/instance_life.hpp"
#include "app/list_runs.hpp"
#include "app/stop_run.hpp"
#include "base/files.hpp"

namespace startrail::app {
namespace {

Result<base::FileLock> lock_instance(const Installation& installation, const std::string& name) {
  const auto place = instance::place_of(installation.paths, name);
  return base::FileLock::acquire(place.lock_file());
}

// How to say `trail up` so that it means this instance, wherever one is.
std::string way_up(const instance::Record& record) {
  std::error_code ignored;
  const bool here = fs::equivalent(fs::current_path(ignored), record.spec.workspace, ignored);
  return here ? "trail up " + record.name
              : fmt::format("trail up -C {} {}", base::shell_quote(record.spec.workspace.string()), record.name);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

Result<instance::Record> down(const Installation& installation, const std::string& name,
                              std::optional<int> grace_seconds, Reporter& reporter) {
  auto record = TRY(instance::read_record(installation.paths, name));
  const auto lock = TRY(lock_instance(installation, name));
  auto store = TRY(open_runs(installation, reporter));
  const auto life = present_life(store, record);
  if (!life) return record;
  reporter.step(fmt::format("stopping {}", name));
  TRY(stop_run(installation, life->run_id, {.grace_seconds = grace_seconds}));
  TRY(wait_until_gone(store, life->run_id));
  return record;
}

Result<void> remove_instance(const Installation& installation, const std::string& name, Force force,
                             Reporter& reporter) {
  TRY(instance::check_name(name));
  const auto place = instance::place_of(installation.paths, name);
  const auto record = instance::read_record(installation.paths, name);
  const bool only_damaged = force == Force::yes && instance::exists(installation.paths, name);
  if (!record && !only_damaged) return fail(record.error());
  const auto lock = TRY(lock_instance(installation, name));
  // One whose record is damaged is found by its name alone: its files must not go from under a container.
  const instance::Record known = record ? *record : instance::Record{.name = name};
  auto store = TRY(open_runs(installation, reporter));
  if (const auto life = present_life(store, known)) {
    if (force == Force::no)
      return fail(base::error(ErrorCode::conflict, fmt::format("{} is up", name))
                      .with_hint(fmt::format("stop it first: trail down {}", name))
                      .with_hint(fmt::format("or stop and remove it at once: trail rm --force {}", name)));
    TRY(stop_run(installation, life->run_id, {.how = run::StopHow::at_once}));
  }
  TRY(wait_until_lives_are_gone(store, known));
  // Without its record it is no instance any more, whatever happens while the rest goes.
  TRY(base::remove_tree(place.record_file()));
  TRY(write_client_configuration(installation));
  return base::remove_tree(place.folder);
}

Result<std::string> instance_name(const Installation& installation, const std::optional<std::string>& given) {
  if (given) {
    TRY(instance::check_name(*given));
    return *given;
  }
  const fs::path folder = TRY(project_folder("."));
  std::vector<std::string> names;
  for (const auto& record : instance::list_records(installation.paths))
    if (record.spec.workspace == folder) names.push_back(record.name);
  if (names.size() == 1) return names.front();
  if (names.empty())
    return fail(base::error(ErrorCode::not_found, fmt::format("{} has no instance", folder.string()))
                    .with_hint("make one: trail up")
                    .with_hint("or name one of another folder; see those that there are: trail ps"));
  const std::string own = instance::name_for_folder(folder);
  if (std::ranges::find(names, own) != names.end()) return own;
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  return fail(base::error(ErrorCode::invalid_input, fmt::format("{} has several instances: {}", folder.string(), all))
                  .with_hint("name one of them"));
}

std::vector<ListedInstance> list_instances(const Installation& installation, run::RunStore& store,
                                           const std::vector<run::RunStore::Listed>& live) {
  std::vector<ListedInstance> all;
  for (auto& record : instance::list_records(installation.paths)) {
    ListedInstance listed{.record = std::move(record)};
    if (auto life = present_life(store, listed.record, live)) {
      listed.state = life->status.state;
      listed.since = life->status.started;
    }
    all.push_back(std::move(listed));
  }
  return all;
}

Json to_json(const std::vector<ListedInstance>& instances) {
  Json list = Json::array();
  for (const auto& [record, state, since] : instances)
    list.push_back(Json{
        {"name", record.name},
        {"state", state ? Json(state == run::State::running ? "up" : std::string(run::name(*state))) : Json("down")},
        {"workspace", record.spec.workspace.string()},
        {"image", record.spec.image_id},
        {"run", text_or_null(record.run_id)},
        {"user", text_or_null(record.user)},
        {"ssh", record.has_ssh},
        {"created", base::to_text(record.created)},
        {"up_since", since ? Json(base::to_text(*since)) : Json(nullptr)}});
  return list;
}

Result<instance::Connection> connect(const base::StatePaths& paths, const std::string& name) {
  auto connection = instance::Connection::open(instance::place_of(paths, name).inside());
  if (connection || connection.error().code != ErrorCode::not_found) return connection;
  const auto record = TRY(instance::read_record(paths, name));
  return fail(base::error(ErrorCode::conflict, fmt::format("instance {} is down", name))
                  .with_hint("start it: " + way_up(record)));
}

}  // namespace startrail::app
