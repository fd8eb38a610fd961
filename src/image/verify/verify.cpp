#include "image/verify/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "build_configuration.hpp"
#include "image/image.hpp"
#include "image/image_folder.hpp"
#include "image/verify/levels.hpp"

namespace startrail::image {
namespace {

constexpr std::string_view k_statement_type = "https://in-toto.io/Statement/v1";
constexpr std::string_view k_predicate_type = "https://in-toto.io/attestation/test-result/v0.1";

constexpr std::array<std::pair<Level, std::string_view>, 7> k_names{
    std::pair{Level::files, std::string_view("files")},
    {Level::linkage, "linkage"},
    {Level::imports, "imports"},
    {Level::selftest, "selftest"},
    {Level::training, "training"},
    {Level::collectives, "collectives"},
    {Level::speed, "speed"},
};

fs::path statement_file(const Store& store, const std::string& id) {
  return store.image(id) / "verification.json";
}

Result<LevelResult> try_level(Level level, const Store& store, const Image& image, const VerifyOptions& options,
                              const machine::Machine& machine, Reporter& reporter) {
  const auto began = std::chrono::steady_clock::now();
  LevelResult result = level == Level::files     ? check_files(store, image, reporter)
                       : level == Level::linkage ? check_linkage(image, reporter)
                                                 : TRY(run_level(level, store, image, options, machine, reporter));
  result.took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  return result;
}

Json to_json(const LevelResult& result) {
  return {{"level", name(result.level)},
          {"outcome", name(result.outcome)},
          {"seconds", std::chrono::duration<double>(result.took).count()},
          {"summary", result.summary},
          {"findings", result.findings},
          {"figures", result.figures}};
}

Json names_with(const Verification& verification, Outcome outcome) {
  Json names = Json::array();
  for (const LevelResult& result : verification.levels)
    if (result.outcome == outcome) names.push_back(name(result.level));
  return names;
}

// Where it was tried: what a reader must know to say whether it holds for him too.
Json place(const machine::Machine& machine) {
  Json gpus = Json::array();
  for (const auto& gpu : machine.gpus)
    if (gpu.visible) gpus.push_back({{"name", gpu.name}, {"architecture", gpu.architecture()}});
  return {{"os", machine.os_name},
          {"kernel", machine.kernel},
          {"architecture", machine.architecture},
          {"cpus", machine.cpus},
          {"driver", machine.driver ? Json(machine.driver->version) : Json(nullptr)},
          {"gpus", std::move(gpus)}};
}

}  // namespace

std::string_view name(Level level) {
  return std::ranges::find(k_names, level, &std::pair<Level, std::string_view>::first)->second;
}

const std::vector<Level>& all_levels() {
  static const std::vector<Level> levels = [] {
    std::vector<Level> all;
    for (const auto& [level, unused] : k_names) all.push_back(level);
    return all;
  }();
  return levels;
}

std::optional<Level> level_from_name(std::string_view name) {
  const auto found = std::ranges::find(k_names, name, &std::pair<Level, std::string_view>::second);
  return found == k_names.end() ? std::nullopt : std::optional(found->first);
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed: return "passed";
    case Outcome::warned: return "warned";
    case Outcome::failed: return "failed";
    case Outcome::not_tried: return "not tried";
  }
  return "";
}

bool Verification::passed() const {
  const auto is = [](Outcome outcome) {
    return [outcome](const LevelResult& result) { return result.outcome == outcome; };
  };
  return std::ranges::none_of(levels, is(Outcome::failed)) && !std::ranges::all_of(levels, is(Outcome::not_tried));
}

Result<Verification> verify_image(const fs::path& store_path, const std::string& image_name,
                                  const VerifyOptions& options, const machine::Machine& machine, Reporter& reporter) {
  const base::Fd held = TRY(hold_store(store_path, reporter));
  const Store store = Store::at(store_path);
  const Image image = TRY(open(store_path, image_name));
  Verification verification{.image = image.id, .levels = {}};
  for (const Level level : options.levels.empty() ? all_levels() : options.levels)
    verification.levels.push_back(TRY(try_level(level, store, image, options, machine, reporter)));
  return verification;
}

Json statement_of(const Verification& verification, const machine::Machine& machine, const Json& image_details) {
  Json levels = Json::array();
  for (const LevelResult& result : verification.levels) levels.push_back(to_json(result));
  const std::string digest = verification.image.substr(verification.image.find(':') + 1);
  const bool failed = !names_with(verification, Outcome::failed).empty();
  const bool warned = !names_with(verification, Outcome::warned).empty() || !verification.passed();
  return {
      {"_type", k_statement_type},
      {"subject", Json::array({{{"name", "image"}, {"digest", {{"sha256", digest}}}}})},
      {"predicateType", k_predicate_type},
      {"predicate",
       {{"result", failed   ? "FAILED"
                   : warned ? "WARNED"
                            : "PASSED"},
        {"configuration", Json::array({{{"name", "trail image verify"}, {"annotations", {{"version", k_version}}}}})},
        {"passedTests", names_with(verification, Outcome::passed)},
        {"warnedTests", names_with(verification, Outcome::warned)},
        {"failedTests", names_with(verification, Outcome::failed)},
        {"startrail",
         {{"verified", base::to_text(base::now())},
          {"framework", base::string_at(image_details, "framework")},
          {"framework_version", base::string_at(image_details, "framework_version")},
          {"cuda", base::string_at(image_details, "cuda")},
          {"python", base::string_at(image_details, "python")},
          {"suite", base::string_at(image_details, "suite")},
          {"lock_digest", base::string_at(image_details, "lock_digest")},
          {"machine", place(machine)},
          {"levels", std::move(levels)}}}}}};
}

Result<void> store_verification(const fs::path& store_path, const std::string& image, const Json& statement) {
  return base::write_file_atomic(statement_file(Store::at(store_path), image), base::to_pretty_text(statement));
}

Json stored_verification(const fs::path& store_path, const std::string& image) {
  auto statement = base::read_json_file(statement_file(Store::at(store_path), image));
  return statement ? std::move(*statement) : Json(nullptr);
}

}  // namespace startrail::image
