#include <fmt/format.h>
#include <unistd.h>

#include "app/background.hpp"
#include "app/instances.hpp"
#include "app/list_runs.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/run_options.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "up",
                          .arguments = "[OPTIONS] [NAME]",
                          .summary = "Start an instance: the project's environment, to log in to and work in.",
                          .examples =
                              "  trail up                  Of the present folder, named after it\n"
                              "  trail up --gpus 1 lab     With one GPU, as `lab`\n"
                              "  ssh lab                   Log in; scp, sftp, rsync and editors know it too\n"
                              "  trail up --renew lab      Make it anew from the project as it is now\n",
                          .notes =
                              "What is installed or written inside stays over `trail down` and `trail up`;\n"
                              "`trail rm` removes it. Options hold until others are given.\n"};

struct Options {
  RunOptions run;
  bool renew = false, json = false, quiet = false, timings = false;
  std::optional<std::string> name;

  void add_to(CommandLine& line) {
    run.add_to(line);
    line.flag("--renew", renew, "Make it anew: a new image, and nothing kept of what was changed inside");
    line.flag("--timings", timings, "Show how long each phase took");
    line.flag("-q,--quiet", quiet, "Say nothing but warnings and errors");
    line.flag("--json", json, "Print JSON");
    line.argument("name", name);
  }
};

Result<app::UpRequest> request_of(const Options& options, const app::Installation& installation) {
  app::UpRequest request{.name = options.name, .run = TRY(options.run.request(installation.environment))};
  if (options.run.network) request.network = TRY(app::parse_network(*options.run.network));
  if (options.renew) request.renew = app::Renew::yes;
  return request;
}

void say_up(const app::Up& up) {
  const std::string& name = up.record.name;
  if (up.included_now)
    say(fmt::format("{} got a first line that includes trail's hosts: ssh, scp, rsync and editors know {} now",
                    up.ssh_configuration.string(), name));
  const std::string way_in = up.record.has_ssh ? "ssh " + name : fmt::format("trail exec -t {} -- sh", name);
  say(fmt::format("{} is up{}: {}", name, up.was_up ? " already" : "", way_in));
}

int show(const app::Installation& installation, const app::Up& up, Format format, Verbosity verbosity) {
  if (const auto warning = app::ends_with_logout(installation); warning && !up.was_up) say_warning(*warning);
  if (verbosity == Verbosity::normal) say_up(up);
  if (format == Format::text) return 0;
  Json told = app::to_json({{.record = up.record, .state = run::State::running, .since = {}}}).front();
  told.erase("up_since");
  told["was_up"] = up.was_up;
  print_json(told);
  return 0;
}

}  // namespace

int up_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  options.add_to(line);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const Verbosity verbosity = options.quiet ? Verbosity::quiet : Verbosity::normal;
  app::Phases phases;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  auto request = request_of(options, *installation);
  if (!request) return report(request.error(), format);
  phases.end("reading the options");
  TerminalReporter reporter(traits_of_stderr(), verbosity);
  const auto up = app::up(*installation, std::move(*request), phases, reporter);
  reporter.finish();
  if (!up) return report(up.error(), format);
  phases.end("the client's configuration");
  if (options.timings)
    for (const auto& phase : phases.all())
      say(fmt::format("{:>10.1f} ms  {}", std::chrono::duration<double, std::milli>(phase.took).count(), phase.name));
  return show(*installation, *up, format, verbosity);
}

}  // namespace startrail::cli
