// The levels that run Python in the image: the scripts of python/verify, isolated as a run is.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "base/json.hpp"
#include "image/verify/inside.hpp"
#include "image/verify/levels.hpp"
#include "sandbox/sandbox.hpp"
#include "verify_scripts.hpp"

namespace startrail::image {
namespace {

constexpr std::chrono::minutes k_patience{20};

// The script that knows the image's framework; "" when none does.
std::string script_for(Level level, const std::string& framework) {
  if (level == Level::imports) return "imports.py";
  for (const char* known : {"torch", "tensorflow", "jax"})
    if (framework == known) return fmt::format("{}_levels.py", known);
  return "";
}

std::string python_of(const Image& image) {
  const Inside inside(image.layers);
  for (const char* python : {"/opt/env/bin/python", "/usr/bin/python3", "/usr/local/bin/python3"})
    if (inside.find(python)) return python;
  return "";
}

Result<void> write_scripts(const fs::path& folder) {
  TRY(base::make_directories(folder));
  for (const auto& [name, text] : k_verify_scripts)
    TRY(base::write_file_atomic(folder / fs::path(name).filename(), text));
  return {};
}

std::vector<int> visible_gpus(const machine::Machine& machine) {
  std::vector<int> indexes;
  for (const auto& gpu : machine.gpus)
    if (gpu.visible) indexes.push_back(gpu.index);
  return indexes;
}

Result<sandbox::ContainerSpec> container_for(Level level, const std::string& script, const Image& image,
                                             const VerifyOptions& options, const machine::Machine& machine,
                                             const fs::path& work) {
  sandbox::ContainerSpec spec{.id = fmt::format("trail-verify-{}", ::getpid()),
                              .layers = image.layers,
                              .scratch = work / "scratch",
                              .argv = {python_of(image), "-B", "/mnt/datasets/" + script, std::string(name(level))},
                              .environment = image.environment,
                              .directory = "/mnt/temp"};
  for (const auto& [variable, value] :
       {std::pair("HOME", "/mnt/temp"), {"TMPDIR", "/mnt/temp"}, {"PYTHONDONTWRITEBYTECODE", "1"}})
    spec.environment[variable] = value;
  spec.mounts = {{.source = work / "in", .target = "/mnt/datasets", .access = sandbox::Access::read_only},
                 {.source = work / "out",
                  .target = "/mnt/temp",
                  .access = sandbox::Access::read_write,
                  .ownership = sandbox::Ownership::caller}};
  // Processes of one machine talk over its loopback; nothing needs more.
  spec.network = level == Level::collectives ? sandbox::Network::host : sandbox::Network::none;
  spec.scratch_after = sandbox::Scratch::discarded;
  spec.owner_reference = work / "out";
  if (const auto gpus = visible_gpus(machine); !gpus.empty())
    spec.gpus = TRY(machine::cdi_edits(options.host, machine, gpus));
  return spec;
}

// The script's answer is the last line of its output.
LevelResult read_answer(Level level, const base::ProcessResult& ended) {
  LevelResult result{.level = level, .outcome = Outcome::failed};
  std::string_view output = ended.output;
  while (output.ends_with('\n')) output.remove_suffix(1);
  const auto line = output.substr(output.rfind('\n') + 1);
  const auto answer = base::parse_json(line, "the level's answer");
  if (!answer || !answer->is_object() || base::string_at(*answer, "summary").empty()) {
    std::string_view errors = ended.errors;
    while (errors.ends_with('\n')) errors.remove_suffix(1);
    const std::string last(errors.substr(errors.rfind('\n') + 1));
    result.summary = ended.timed_out ? fmt::format("no answer within {}", base::to_text(k_patience))
                     : last.empty()  ? fmt::format("ended with exit code {}", ended.exit_code)
                                     : last.substr(0, 400);
    result.findings = {result.summary};
    return result;
  }
  const Json& passed = base::member(*answer, "passed");
  result.outcome = !passed.is_boolean() ? Outcome::not_tried : passed.get<bool>() ? Outcome::passed : Outcome::failed;
  result.summary = base::string_at(*answer, "summary");
  if (const Json& figures = base::member(*answer, "figures"); figures.is_object()) {
    result.figures = figures;
    result.findings = base::strings_at(figures, "failed");
    const auto warnings = base::strings_at(figures, "warned");
    if (result.outcome == Outcome::passed && !warnings.empty()) result.outcome = Outcome::warned;
    result.findings.insert(result.findings.end(), warnings.begin(), warnings.end());
    for (const char* list : {"failed", "warned"}) result.figures.erase(list);
  }
  // Right until the answer is not enough: what crashes or hangs as it ends would do so in everybody's training.
  if (result.outcome != Outcome::failed && !ended.succeeded()) {
    result.outcome = Outcome::failed;
    result.findings = {fmt::format("{}, but then {}", result.summary,
                                   ended.timed_out ? fmt::format("it did not end within {}", base::to_text(k_patience))
                                   : ended.signal != 0 ? "it was ended by " + base::signal_name(ended.signal)
                                                       : fmt::format("it ended with exit code {}", ended.exit_code))};
    result.summary = result.findings.front();
  }
  return result;
}

Result<LevelResult> run_in(const fs::path& work, Level level, const std::string& script, const Image& image,
                           const VerifyOptions& options, const machine::Machine& machine) {
  const auto support = TRY(sandbox::probe(machine));
  TRY(write_scripts(work / "in"));
  for (const char* folder : {"out", "scratch"}) TRY(base::make_directories(work / folder));
  const auto spec = TRY(container_for(level, script, image, options, machine, work));
  const auto ended =
      TRY_CONTEXT(sandbox::run_contained(support, spec, {}, k_patience), fmt::format("while trying {}", name(level)));
  return read_answer(level, ended);
}

}  // namespace

Result<LevelResult> run_level(Level level, const Store& store, const Image& image, const VerifyOptions& options,
                              const machine::Machine& machine, Reporter& reporter) {
  const auto details = base::read_json_file(store.image(image.id) / "details.json");
  const std::string framework = details ? base::string_at(*details, "framework") : "";
  const std::string script = script_for(level, framework);
  LevelResult untried{.level = level};
  if (script.empty() || python_of(image).empty()) {
    untried.summary = script.empty() ? "no framework here that this level has a script for" : "no Python in the image";
    return untried;
  }
  reporter.progress({.what = fmt::format("verifying: {}", name(level)),
                     .done = 0,
                     .total = {},
                     .unit = base::Unit::items,
                     .detail = framework});
  const std::string key = "verify-" + store.image(image.id).filename().string();
  const base::FileLock lock = TRY(store.lock(key));
  const fs::path work = store.staging(key);
  auto result = run_in(work, level, script, image, options, machine);
  const auto removed = base::remove_tree(work);
  if (result) TRY(removed);
  return result;
}

}  // namespace startrail::image
