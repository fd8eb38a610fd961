#include <fmt/format.h>

#include "app/catalog.hpp"
#include "catalog/rows.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/project_options.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "catalog choose",
                          .arguments = "[OPTIONS] [DIR]",
                          .summary = "Show what `run` would choose for a folder, on this machine or on another one.",
                          .examples =
                              "  trail catalog choose --explain                     And why\n"
                              "  trail catalog choose --driver 535.183 --gpu sm_86  On a machine like that\n"
                              "  trail catalog choose --framework torch==2.1.2      With another release\n",
                          .notes = "Nothing is downloaded or written; a lock that is there is not looked at.\n"};

struct Options {
  ProjectOptions project;
  app::DescribedMachine machine;
  std::optional<std::string> folder;
  bool explain = false, json = false;
};

Result<app::Chosen> choose(const app::Installation& installation, const Options& options, Reporter& reporter) {
  const auto request = TRY(options.project.request(options.folder.value_or(".")));
  const auto here = machine::survey(installation.host, installation.paths.root, machine::Depth::quick);
  const auto machine = TRY(app::describe(here, options.machine));
  return app::choose_for(installation, machine, request, reporter);
}

std::string summary(const catalog::Choice& choice) {
  std::string text = fmt::format("Python {} on {}", choice.pythons.front().minor, choice.pythons.front().suite);
  if (!choice.combination) return text + ", no framework of the catalog is declared\n";
  const auto& row = *choice.combination;
  text += ", " + catalog::title(row);
  if (choice.build == project::Build::cpu) return text + " (CPU build)\n";
  text += fmt::format(" with CUDA {}", row.cuda);
  if (!row.cudnn.empty()) text += fmt::format(" and cuDNN {}", row.cudnn);
  return text + fmt::format(", NVIDIA driver {} or newer\n", row.driver_floor);
}

void tell_steps(const app::Chosen& chosen, const Options& options) {
  if (options.explain)
    for (const auto& step : chosen.steps) print(fmt::format("  {}\n", step));
}

void show(const app::Chosen& chosen, const Options& options) {
  if (options.json) return print_json(app::to_json(chosen));
  tell_steps(chosen, options);
  print(summary(*chosen.choice));
}

// As `run` tells it; in JSON the refusal is a part of the answer, not an answer of its own.
int refuse(const app::Chosen& chosen, const Options& options) {
  if (!options.json) {
    tell_steps(chosen, options);
    return report(*chosen.refusal, Format::text);
  }
  print_json(app::to_json(chosen));
  say(styled_error(*chosen.refusal, wants_colour(2)));
  return base::exit_code(chosen.refusal->code);
}

}  // namespace

int catalog_choose_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.flag("--explain", options.explain, "Tell the steps that lead there");
  line.value("--driver", options.machine.driver, "VERSION", "As with this NVIDIA driver; `none` for no driver");
  line.value("--gpu", options.machine.gpus, "LIST", "As with these GPUs, e.g. sm_86,sm_90");
  options.project.add_choice_to(line);
  line.flag("--json", options.json, "Print JSON");
  line.argument("dir", options.folder);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto chosen = choose(*installation, options, reporter);
  reporter.finish();
  if (!chosen) return report(chosen.error(), format);
  if (chosen->refusal) return refuse(*chosen, options);
  show(*chosen, options);
  return 0;
}

}  // namespace startrail::cli
