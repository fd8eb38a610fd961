#include "app/list_runs.hpp"

#include "instance/record.hpp"

namespace startrail::app {

Result<run::RunStore> open_runs(const Installation& installation, Reporter& reporter) {
  auto store = run::RunStore::open(installation.paths, [&](std::string_view text) { reporter.warn(text); });
  if (!store) return fail(unusable_state(std::move(store).error(), installation));
  return store;
}

Result<std::string> find_run(const Installation& installation, run::RunStore& store, const std::string& name) {
  auto found = store.find(name);
  if (found || found.error().code != ErrorCode::not_found) return found;
  const auto instance = instance::read_record(installation.paths, name);
  if (instance && !instance->run_id.empty()) return instance->run_id;
  return found;
}

Json to_json(const std::vector<run::RunStore::Listed>& runs) {
  Json list = Json::array();
  for (const auto& run : runs) {
    list.push_back(Json{{"id", run.id},
                        {"state", run::name(run.state)},
                        {"command", run.command},
                        {"image", run.image_id.empty() ? Json(nullptr) : Json(run.image_id)},
                        {"workspace", run.workspace},
                        {"created", base::to_text(run.created)},
                        {"ended", run.ended ? Json(base::to_text(*run.ended)) : Json(nullptr)},
                        {"exit_code", base::or_null(run.exit_code)},
                        {"cause", run.cause.empty() ? Json(nullptr) : Json(run.cause)}});
  }
  return Json{{"runs", std::move(list)}};
}

}  // namespace startrail::app
