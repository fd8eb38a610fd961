#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/follow_run.hpp"
#include "app/run_project.hpp"
#include "cli/commands.hpp"
#include "cli/followed_run.hpp"
#include "cli/output.hpp"
#include "cli/run_options.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "run",
                          .arguments = "[OPTIONS] [--] [COMMAND...]",
                          .summary = "Run a command in the project's environment, isolated and recorded.",
                          .examples =
                              "  trail run -- python train.py                 Train in the present folder\n"
                              "  trail run -C ~/resnet -- python train.py     In another folder\n"
                              "  trail run -d --gpus 1 -- python train.py     In the background, on one GPU\n"
                              "  trail run --memory 16GiB --env SEED=1 -- python train.py\n"
                              "  trail run --mount /data/coco:/mnt/coco:ro -- python train.py\n",
                          .notes =
                              "The folder is /workspace inside; files written to $TRAIL_OUTPUT_DIR are kept.\n"
                              "Exit code: the command's own (128 + signal), 125 when it could not be started.\n"};

constexpr int k_exit_could_not_start = 125;

struct Options {
  RunOptions run;
  bool detach = false, no_snapshot = false, json = false, quiet = false, timings = false;
  std::optional<std::string> isolation;
  std::vector<std::string> command;

  void add_to(CommandLine& line) {
    line.flag("-d,--detach", detach, "Print the run's id and return");
    run.add_to(line);
    line.value("--isolation", isolation, "auto|none", "none: run on the machine itself");
    line.flag("--no-snapshot", no_snapshot, "Don't record the code");
    line.flag("--timings", timings, "Show how long each phase took");
    line.flag("-q,--quiet", quiet, "Say nothing but warnings and errors");
    line.flag("--json", json, "Print the result as JSON; the log goes to stderr");
    line.command(command);
  }
};

Result<app::Isolation> isolation_of(const std::optional<std::string>& text) {
  if (!text || *text == "auto") return app::Isolation::automatic;
  if (*text == "none") return app::Isolation::none;
  return fail(base::error(ErrorCode::usage, fmt::format("--isolation `{}`: it is either auto or none", *text)));
}

Result<app::RunRequest> request_of(const Options& options, const app::Installation& installation) {
  auto request = TRY(options.run.request(installation.environment));
  request.command = options.command;
  request.isolation = TRY(isolation_of(options.isolation));
  if (options.run.network) request.network = TRY(app::parse_network(*options.run.network));
  if (options.no_snapshot) request.snapshot = app::TakeSnapshot::no;
  return request;
}

// Everything but a wrong call is "refused or could not start", so that a script can tell it from the command's own
// codes.
int refuse(const Error& error, Format format) {
  const int code = report(error, format);
  return error.code == ErrorCode::usage ? code : k_exit_could_not_start;
}

}  // namespace

int run_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  options.add_to(line);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const Verbosity verbosity = options.quiet ? Verbosity::quiet : Verbosity::normal;
  app::Phases phases;
  const auto installation = app::find_installation();
  if (!installation) return refuse(installation.error(), format);
  const auto request = request_of(options, *installation);
  if (!request) return refuse(request.error(), format);
  phases.end("reading the options");
  TerminalReporter reporter(traits_of_stderr(), verbosity);
  auto prepared = app::prepare_run(*installation, *request, phases, reporter);
  reporter.finish();
  if (!prepared) return refuse(prepared.error(), format);
  // Before the run exists Ctrl-C simply ends this process; from here on it is the run that it stops.
  if (!options.detach) app::catch_interrupts();
  const auto submitted = app::submit_run(*installation, std::move(*prepared), phases, reporter);
  if (!submitted) return refuse(submitted.error(), format);
  return show_submitted(
      *installation, *submitted, phases,
      {.format = format, .verbosity = verbosity, .detach = options.detach, .timings = options.timings});
}

}  // namespace startrail::cli
