#include "app/images.hpp"

#include "app/list_runs.hpp"

namespace startrail::app {

Json to_json(const std::vector<image::Summary>& images) {
  const auto or_absent = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json list = Json::array();
  for (const auto& image : images) {
    list.push_back(Json{{"id", image.id},
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

Result<image::PruneResult> prune_images(const Installation& installation, image::PruneOptions options,
                                        Reporter& reporter) {
  TRY(prepare_state(installation));
  auto runs = TRY(open_runs(installation, reporter));
  for (const auto& run : TRY(runs.list(run::RunStore::Which::live))) options.keep_images.push_back(run.image_id);
  return image::prune(installation.paths.store(), options, reporter);
}

}  // namespace startrail::app
