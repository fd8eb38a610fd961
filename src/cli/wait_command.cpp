#include "app/follow_run.hpp"
#include "app/list_runs.hpp"
#include "cli/commands.hpp"
#include "cli/followed_run.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "wait",
                          .arguments = "[OPTIONS] [RUN]",
                          .summary = "Wait until a run has ended; the exit code is the run's.",
                          .examples =
                              "  trail wait                         For the latest run\n"
                              "  id=$(trail run -d -- python train.py) && trail wait $id\n"};

struct Waited {
  run::RunSpec spec;
  run::Status status;
};

Result<Waited> wait_for(const app::Installation& installation, const std::string& name, Reporter& reporter) {
  auto store = TRY(app::open_runs(installation, reporter));
  const std::string id = TRY(app::find_run(installation, store, name));
  Waited waited{.spec = TRY(store.spec(id))};
  waited.status = TRY(app::follow_run(installation, store, id, {})).status;
  return waited;
}

}  // namespace

int wait_command(Words words) {
  std::optional<std::string> run;
  bool json = false;
  CommandLine line(k_manual);
  line.flag("--json", json, "Print the result as JSON");
  line.argument("run", run);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto waited = wait_for(*installation, run.value_or("latest"), reporter);
  if (!waited) return report(waited.error(), format);
  if (json)
    print_json(ending_json(*installation, waited->spec, waited->status));
  else if (waited->status.state != run::State::succeeded)
    say(ending_in_words(waited->spec.id, waited->status));
  return app::exit_status(waited->status);
}

}  // namespace startrail::cli
