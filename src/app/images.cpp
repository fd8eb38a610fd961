#include "app/images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "app/list_runs.hpp"
#include "base/files.hpp"
#include "catalog/catalog.hpp"
#include "instance/record.hpp"

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

Json to_json(const image::DiskUsage& usage) {
  Json images = Json::array();
  for (const auto& image : usage.images)
    images.push_back(Json{{"id", image.id},
                          {"name", image.name.empty() ? Json(nullptr) : Json(image.name)},
                          {"size_bytes", image.size.count},
                          {"own_bytes", image.own.count},
                          {"shared_bytes", image.size.count - image.own.count},
                          {"last_used", base::to_text(image.last_used)}});
  return Json{{"images", std::move(images)},
              {"wheels_bytes", usage.wheels.count},
              {"layers_bytes", usage.layers.count},
              {"bases_bytes", usage.bases.count},
              {"bytecode_bytes", usage.bytecode.count},
              {"trees_bytes", usage.trees.count},
              {"unfinished_bytes", usage.unfinished.count},
              {"other_bytes", usage.other.count},
              {"total_bytes", usage.total.count},
              {"unneeded_bytes", usage.unneeded.count}};
}

namespace {

Result<std::vector<std::string>> images_of_live_runs(const Installation& installation, Reporter& reporter) {
  TRY(prepare_state(installation));
  auto runs = TRY(open_runs(installation, reporter));
  std::vector<std::string> ids;
  for (const auto& run : TRY(runs.list(run::RunStore::Which::live)))
    if (!run.image_id.empty()) ids.push_back(run.image_id);
  // One that is down goes on with its image when it is up again.
  for (const auto& instance : instance::list_records(installation.paths)) ids.push_back(instance.spec.image_id);
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

namespace {

std::string quoted(const std::string& text) {
  std::string plain = "\"";
  for (const char c : text)
    if (std::isprint(static_cast<unsigned char>(c)) != 0 && c != '"' && c != '\\') plain += c;
  return plain + '"';
}

std::string deepest_level(const image::Verification& verification) {
  std::string deepest;
  for (const auto& result : verification.levels)
    if (result.level != image::Level::speed &&
        (result.outcome == image::Outcome::passed || result.outcome == image::Outcome::warned))
      deepest = image::name(result.level);
  return deepest;
}

bool has_warnings(const image::Verification& verification) {
  return std::ranges::find(verification.levels, image::Outcome::warned, &image::LevelResult::outcome) !=
         verification.levels.end();
}

// What makes a row of the catalog `verified` (docs/reference/catalog.md). An image of no row has none.
// What came from elsewhere speaks for itself alone: that it is what a row promises is its own claim.
Result<void> note_for_catalog(const fs::path& store, const Verified& verified, const machine::Machine& machine,
                              const Json& details) {
  if (base::member(details, "origin").is_object()) return {};
  const Json& told = base::member(base::member(verified.statement, "predicate"), "startrail");
  const std::string framework = base::string_at(told, "framework"),
                    version = base::string_at(told, "framework_version");
  const auto* row = framework.empty() ? nullptr : catalog::find(framework, version);
  if (row == nullptr || !verified.verification.passed()) return {};
  const auto gpu = std::ranges::find_if(machine.gpus, &machine::Gpu::visible);
  const std::string& id = verified.verification.image;
  std::string text = "[[verified]]\n";
  for (const auto& [key, value] : {std::pair<std::string_view, std::string>{"framework", framework},
                                   {"series", row->series},
                                   {"tag", row->tag},
                                   {"release", version},
                                   {"python", base::string_at(told, "python")},
                                   {"level", deepest_level(verified.verification)},
                                   {"hardware", gpu == machine.gpus.end() ? "cpu" : gpu->name},
                                   {"date", base::string_at(told, "verified").substr(0, 10)},
                                   {"image", id},
                                   {"build", base::string_at(told, "cuda").empty() ? "cpu" : "gpu"},
                                   {"result", has_warnings(verified.verification) ? "warned" : "passed"},
                                   {"lock", base::string_at(told, "lock_digest")}})
    text += fmt::format("{} = {}\n", key, quoted(value));
  TRY(base::make_directories(store / "verified"));
  return base::write_file_atomic(store / "verified" / (id.substr(id.find(':') + 1) + ".toml"), text);
}

}  // namespace

Result<Verified> verify_image(const Installation& installation, const std::string& image,
                              const std::vector<image::Level>& levels, Reporter& reporter) {
  TRY(prepare_state(installation));
  const fs::path store = installation.paths.store();
  const auto machine = machine::survey(installation.host, installation.paths.root, machine::Depth::full);
  const image::VerifyOptions options{
      .levels = levels, .host = installation.host, .state_root = installation.paths.root};
  Verified verified{.verification = TRY(image::verify_image(store, image, options, machine, reporter)),
                    .statement = {}};
  const std::string& id = verified.verification.image;
  const Json details = TRY(image::inspect(store, id));
  verified.statement = image::statement_of(verified.verification, machine, details);
  if (levels.empty()) {
    TRY(image::store_verification(store, id, verified.statement));
    TRY(note_for_catalog(store, verified, machine, details));
    verified.kept = true;
  }
  return verified;
}

}  // namespace startrail::app
