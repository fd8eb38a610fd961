#include <fmt/format.h>

#include "app/list_runs.hpp"
#include "app/run_settings.hpp"
#include "app/stop_run.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "stop",
                          .arguments = "[OPTIONS] RUN...",
                          .summary = "Stop runs: TERM, then KILL after the run's grace; returns when they have ended.",
                          .examples =
                              "  trail stop quiet-falcon-3f2a\n"
                              "  trail stop --now latest          Kill it at once\n"
                              "  trail stop --grace 5s latest     Kill it after 5 seconds\n"};

struct Options {
  bool now = false, json = false;
  std::optional<std::string> grace;
  std::vector<std::string> runs;
};

Result<app::StopRequest> request_of(const Options& options) {
  app::StopRequest request;
  if (options.now) request.how = run::StopHow::at_once;
  if (options.grace) request.grace_seconds = TRY(app::parse_grace(*options.grace));
  if (options.runs.empty())
    return fail(base::error(ErrorCode::usage, "`trail stop` needs to know which run")
                    .with_hint("see what is going on: trail ps")
                    .with_hint("or stop the latest: trail stop latest"));
  return request;
}

struct Stopped {
  std::string id;
  run::Status status;
};

Result<Stopped> stop_one(const app::Installation& installation, const std::string& name,
                         const app::StopRequest& request, Reporter& reporter) {
  auto store = TRY(app::open_runs(installation, reporter));
  const std::string id = TRY(app::find_run(installation, store, name));
  const run::Status status = TRY(app::stop_run(installation, id, request));
  return Stopped{id, status};
}

}  // namespace

int stop_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.flag("--now", options.now, "KILL at once");
  line.value("--grace", options.grace, "TIME", "KILL after this long, if sooner than the run's own grace");
  line.flag("--json", options.json, "Print JSON");
  line.arguments("run", options.runs);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  const auto request = request_of(options);
  if (!request) return report(request.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  int code = 0;
  Json results = Json::array();
  for (const auto& name : options.runs) {
    const auto stopped = stop_one(*installation, name, *request, reporter);
    if (!stopped) {
      code = report(stopped.error(), Format::text);
      Json failed = error_json(stopped.error());
      failed["id"] = name;
      results.push_back(std::move(failed));
      continue;
    }
    for (const auto& remark : stopped->status.remarks) say_warning(remark);
    results.push_back(Json{{"id", stopped->id},
                           {"state", run::name(stopped->status.state)},
                           {"exit_code", base::or_null(stopped->status.exit_code)}});
    if (!options.json) print(fmt::format("{}\n", stopped->id));
  }
  if (options.json) print_json(Json{{"runs", results}});
  return code;
}

}  // namespace startrail::cli
