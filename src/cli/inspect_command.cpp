#include <fmt/format.h>

#include "app/list_runs.hpp"
#include "app/outputs.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/run_story.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "inspect",
                          .arguments = "[OPTIONS] [RUN]",
                          .summary = "Tell a run's story: what ran, where, with what, how it ended and what it left.",
                          .examples =
                              "  trail inspect                  The latest run\n"
                              "  trail inspect --json quiet-falcon\n"};

Json path_or_null(const std::optional<fs::path>& path) {
  return path ? Json(path->string()) : Json(nullptr);
}

// The record as it is stored, with what only this machine can say: the state now, and where results lie.
Result<Json> told(const app::Installation& installation, const std::string& name, Reporter& reporter) {
  auto store = TRY(app::open_runs(installation, reporter));
  const std::string id = TRY(app::find_run(installation, store, name));
  Json record = TRY(store.whole_record(id));
  Json json{{"id", id}, {"state", base::member(base::member(record, "status"), "state")}};
  for (auto& [key, value] : record.items()) json[key] = std::move(value);
  json["directory"] = store.directory(id).string();
  json["outputs"] = path_or_null(app::written(app::output_folder(installation, id)));
  json["checkpoints"] = path_or_null(app::written(app::checkpoint_folder(installation, id)));
  return json;
}

}  // namespace

int inspect_command(Words words) {
  std::optional<std::string> run;
  bool json = false;
  CommandLine line(k_manual);
  line.flag("--json", json, "Print the whole record as JSON");
  line.argument("run", run);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto record = told(*installation, run.value_or("latest"), reporter);
  if (!record) return report(record.error(), format);
  if (json)
    print_json(*record);
  else
    print(story_of(*record, base::now()));
  return 0;
}

}  // namespace startrail::cli
