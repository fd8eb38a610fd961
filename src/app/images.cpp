#include "app/images.hpp"

#include "app/list_runs.hpp"

namespace startrail::app {

Json to_json(const std::vector<image::Summary>& images) {
  const auto or_absent = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json list = Json::array();
  for (const auto& image : images) {
    list.push_back(Json{{"id", image.id},
                        {"name", or_absent(image.name)},
                        {"origin", or_absent(image.origin)},
                        {"framework", or_absent(image.framework)},
                        {"framework_version", or_absent(image.framework_version)},
                        {"python", or_absent(image.python)},
                        {"suite", or_absent(image.suite)},
                        {"packages", image.packages},
                        {"size_bytes", image.size.count},
                        {"created", base::to_text(image.created)},
                        {"last_used", base::to_text(image.last_used)}});
  }
  return Json{{"images", std::move(list)}};
}

namespace {

Result<std::vector<std::string>> images_of_live_runs(const Installation& installation, Reporter& reporter) {
  TRY(prepare_state(installation));
  auto runs = TRY(open_runs(installation, reporter));
  std::vector<std::string> ids;
  for (const auto& run : TRY(runs.list(run::RunStore::Which::live)))
    if (!run.image_id.empty()) ids.push_back(run.image_id);
  return ids;
}

}  // namespace

Result<image::PruneResult> prune_images(const Installation& installation, image::PruneOptions options,
                                        Reporter& reporter) {
  options.keep_images = TRY(images_of_live_runs(installation, reporter));
  return image::prune(installation.paths.store(), options, reporter);
}

Result<image::RepairResult> repair_store(const Installation& installation, Reporter& reporter) {
  return image::repair_store(installation.paths.store(),
                             {.keep_images = TRY(images_of_live_runs(installation, reporter))}, reporter);
}

}  // namespace startrail::app
