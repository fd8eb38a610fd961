#include "app/follow_run.hpp"
#include "app/list_runs.hpp"
#include "app/rerun.hpp"
#include "cli/commands.hpp"
#include "cli/followed_run.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{
    .name = "rerun",
    .arguments = "[OPTIONS] [RUN]",
    .summary = "Run again from a run's record: its code, lock, command, environment and limits.",
    .examples =
        "  trail rerun                       Repeat the latest run\n"
        "  trail rerun quiet-falcon-3f2a     Repeat this one\n"
        "  trail rerun --here quiet-falcon   With the code as it is now in the present folder\n",
    .notes = "What can't be the same (files left out of the snapshot, another GPU) is said and recorded.\n"};

constexpr int k_exit_could_not_start = 125;

Result<std::string> find_run(const app::Installation& installation, const std::string& name, Reporter& reporter) {
  auto store = TRY(app::open_runs(installation, reporter));
  return store.find(name);
}

int refuse(const Error& error, Format format) {
  const int code = report(error, format);
  return error.code == ErrorCode::usage ? code : k_exit_could_not_start;
}

}  // namespace

int rerun_command(Words words) {
  std::optional<std::string> run;
  bool here = false, detach = false, timings = false, quiet = false, json = false;
  CommandLine line(k_manual);
  line.flag("--here", here, "Use the code of the present folder");
  line.flag("-d,--detach", detach, "Print the new run's id and return");
  line.flag("--timings", timings, "Show how long each phase took");
  line.flag("-q,--quiet", quiet, "Say nothing but warnings and errors");
  line.flag("--json", json, "Print the result as JSON; the log goes to stderr");
  line.argument("run", run);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const Verbosity verbosity = quiet ? Verbosity::quiet : Verbosity::normal;
  app::Phases phases;
  const auto installation = app::find_installation();
  if (!installation) return refuse(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), verbosity);
  const auto where = here ? app::Where::present_folder : app::Where::fresh_folder;
  const auto id = find_run(*installation, run.value_or("latest"), reporter);
  if (!id) return report(id.error(), format);
  auto prepared = app::prepare_rerun(*installation, *id, where, phases, reporter);
  reporter.finish();
  if (!prepared) return refuse(prepared.error(), format);
  if (!detach) app::catch_interrupts();
  const auto submitted = app::submit_run(*installation, std::move(*prepared), phases, reporter);
  if (!submitted) return refuse(submitted.error(), format);
  return show_submitted(*installation, *submitted, phases,
                        {.format = format, .verbosity = verbosity, .detach = detach, .timings = timings});
}

}  // namespace startrail::cli
