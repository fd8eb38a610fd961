// `trail doctor` without a log: this host, and this folder.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "app/doctor.hpp"
#include "app/lock_project.hpp"
#include "base/files.hpp"
#include "base/units.hpp"
#include "machine/host_facts.hpp"

namespace startrail::app {
namespace {

std::string gpus_in_words(const machine::Machine& machine) {
  if (machine.gpus.empty())
    return machine.driver ? "driver " + machine.driver->version + ", no GPU that answers" : "no NVIDIA GPU";
  std::string text;
  for (const auto& gpu : machine.gpus)
    text += fmt::format("{}{} ({}, {})", text.empty() ? "" : ", ", gpu.name, gpu.architecture(),
                        base::to_binary_text(gpu.memory));
  return fmt::format("{}, driver {}", text, machine.driver ? machine.driver->version : "unknown");
}

std::string runtimes_in_words(const machine::Machine& machine) {
  std::string text;
  for (const auto& runtime : machine.runtimes)
    if (runtime.usable) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", runtime.name, runtime.version);
  return text.empty() ? "no container runtime" : text;
}

std::string story_of(const machine::Machine& machine) {
  return fmt::format("{}, kernel {}, {} CPUs, {}, {}; {}; {} free", machine.os_name, machine.kernel, machine.cpus,
                     base::to_binary_text(machine.memory), gpus_in_words(machine), runtimes_in_words(machine),
                     base::to_text(machine.disk_free));
}

Result<Examination> examine_host(const Installation& installation, const machine::Machine& machine) {
  const auto facts = machine::host_facts(installation.host, machine, installation.paths.root);
  auto findings =
      TRY(diagnose::diagnose_host(facts, machine::kernel_messages(installation.host), {.machine = &machine}));
  return Examination{.story = story_of(machine), .findings = std::move(findings), .facts = machine::to_json(machine)};
}

// ---- the project ----

struct Combined {
  std::string framework, version, cuda, python, suite;
};

std::string in_words(const Combined& combined) {
  std::string text = combined.framework.empty() ? "no framework" : combined.framework + " " + combined.version;
  if (!combined.cuda.empty()) text += ", CUDA " + combined.cuda;
  if (!combined.python.empty()) text += ", Python " + combined.python;
  if (!combined.suite.empty()) text += " on Debian " + combined.suite;
  return text;
}

Json facts_of(const fs::path& folder, const Combined& combined, bool locked, const std::vector<std::string>& notes) {
  const auto or_absent = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"folder", folder.string()},
          {"framework", or_absent(combined.framework)},
          {"version", or_absent(combined.version)},
          {"cuda", or_absent(combined.cuda)},
          {"python", or_absent(combined.python)},
          {"suite", or_absent(combined.suite)},
          {"locked", locked},
          {"notes", notes}};
}

// A lock beside the code that `trail run` would take as it is.
std::optional<lock::Lock> lock_in_force(const fs::path& folder, const project::Requirements& needs) {
  const fs::path file = folder / lock::k_lock_file_name;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return std::nullopt;
  auto lock = lock::read_lock(file);
  if (!lock || lock::out_of_date(*lock, needs, {.build = lock->build, .python = lock->python})) return std::nullopt;
  return std::move(*lock);
}

Result<Combined> chosen(const project::Requirements& needs, const machine::Machine& machine) {
  const auto choice = TRY(catalog::choose(needs, machine, {}));
  Combined combined;
  if (choice.combination) {
    combined.framework = choice.combination->framework;
    combined.version = choice.combination->series;
    if (choice.build == project::Build::gpu) combined.cuda = choice.combination->cuda;
  }
  if (!choice.pythons.empty()) {
    combined.python = choice.pythons.front().minor;
    combined.suite = choice.pythons.front().suite;
  }
  return combined;
}

Result<Combined> of_lock(const lock::Lock& lock, const machine::Machine& machine) {
  const auto* row = lock.framework.empty() || lock.build == project::Build::cpu
                        ? nullptr
                        : catalog::find(lock.framework, lock.framework_version);
  if (row != nullptr) TRY(catalog::check(*row, lock.framework_version, machine, lock::k_lock_file_name));
  return Combined{.framework = lock.framework,
                  .version = lock.framework_version,
                  .cuda = lock.cuda,
                  .python = lock.python,
                  .suite = lock.suite};
}

bool is_training_code(const project::Requirements& needs) {
  return needs.declared_by != project::DeclaredBy::nothing;
}

Result<std::optional<Examination>> examine_project(const fs::path& asked, const machine::Machine& machine) {
  const fs::path folder = TRY(project_folder(asked));
  const auto refused = [&](const Error& error) -> Result<std::optional<Examination>> {
    Examination examined{.story = folder.string(), .findings = {}, .facts = facts_of(folder, {}, false, {})};
    examined.findings.push_back(TRY(diagnose::diagnose_refusal(error, {.machine = &machine})));
    return examined;
  };
  // Without the map of modules, imports are named but not mapped: it is fetched by `trail lock`, and nothing here is.
  const auto needs = project::read(folder, {});
  if (!needs) return refused(needs.error());
  if (!is_training_code(*needs)) return std::nullopt;
  const auto lock = lock_in_force(folder, *needs);
  const auto combined = lock ? of_lock(*lock, machine) : chosen(*needs, machine);
  if (!combined) return refused(combined.error());
  std::vector<std::string> notes;
  for (const auto& note : needs->notes) notes.push_back(fmt::format("{} ({})", note.value, to_text(note.origin)));
  return Examination{
      .story = fmt::format("{}: {}{}", folder.string(), in_words(*combined), lock ? ", as locked" : "; not locked yet"),
      .findings = {},
      .facts = facts_of(folder, *combined, lock.has_value(), notes)};
}

}  // namespace

Result<CheckUp> check_up(const Installation& installation, const fs::path& folder) {
  const auto machine = machine::survey(installation.host, installation.paths.root, machine::Depth::full);
  CheckUp found{.host = TRY(examine_host(installation, machine)), .project = std::nullopt};
  found.project = TRY(examine_project(folder, machine));
  return found;
}

std::vector<std::string> commands_of(const CheckUp& found) {
  std::vector<std::string> commands;
  for (const auto& finding : found.host.findings)
    if (diagnose::certainty(finding.confidence) == "certain")
      for (const std::string& command : finding.commands)
        if (std::ranges::find(commands, command) == commands.end()) commands.push_back(command);
  return commands;
}

Result<void> run_as_root(const std::string& command) {
  const std::string line = (::geteuid() == 0 ? command : "sudo sh -c " + base::shell_quote(command)) + " 1>&2";
  const int status = std::system(line.c_str());  // NOLINT(cert-env33-c): the user asked for exactly this command
  if (status == 0) return {};
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return fail(base::error(ErrorCode::refused, fmt::format("`{}` ended with exit code {}", command, code))
                  .with_hint("what comes after it was not run; `trail doctor` says what is left"));
}

Json to_json(const CheckUp& found) {
  Json list = Json::array();
  for (const auto& finding : found.host.findings) list.push_back(diagnose::to_json(finding));
  if (found.project)
    for (const auto& finding : found.project->findings) list.push_back(diagnose::to_json(finding));
  return {{"findings", std::move(list)},
          {"host", found.host.facts},
          {"project", found.project ? found.project->facts : Json(nullptr)}};
}

}  // namespace startrail::app
