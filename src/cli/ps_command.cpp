#include <fmt/format.h>

#include "app/instances.hpp"
#include "app/list_runs.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/table.hpp"
#include "cli/terminal_reporter.hpp"
#include "cli/text_width.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "ps",
                          .arguments = "[OPTIONS]",
                          .summary = "List instances, the runs that are going on, and the latest that ended.",
                          .examples =
                              "  trail ps               What is going on\n"
                              "  trail ps -a            All runs, newest first\n"
                              "  trail ps --instances   Instances only\n"
                              "  trail ps --json        The same for scripts\n"};

constexpr std::size_t k_latest_ended = 5;
constexpr std::size_t k_longest_command = 40;

std::string duration_of(const run::RunStore::Listed& run, base::Time now) {
  const auto took = std::chrono::floor<std::chrono::seconds>(run.ended.value_or(now) - run.created);
  if (took < std::chrono::seconds(60)) return fmt::format("{} s", std::max<long long>(0, took.count()));
  return base::to_text(took);
}

std::string outcome_of(const run::RunStore::Listed& run) {
  if (!run::is_final(run.state)) return "";
  if (!run.cause.empty()) return run.cause;
  return run.exit_code ? fmt::format("{}", *run.exit_code) : "";
}

std::string table_of(const std::vector<run::RunStore::Listed>& runs) {
  Table table({"RUN", "STATE", "COMMAND", "AGE", "TIME", "EXIT"});
  const auto now = base::now();
  for (const auto& run : runs)
    table.add({run.id, std::string(run::name(run.state)), cut_to_columns(run.command, k_longest_command),
               base::ago(run.created, now), duration_of(run, now), outcome_of(run)});
  return table.text(output_width());
}

std::string table_of(const std::vector<app::ListedInstance>& instances) {
  Table table({"INSTANCE", "STATE", "SINCE", "SSH", "FOLDER"});
  const auto now = base::now();
  for (const auto& [record, state, since] : instances) {
    const std::string told = !state ? "down" : *state == run::State::running ? "up" : std::string(run::name(*state));
    table.add({record.name, told, since ? base::ago(*since, now) : "", record.has_ssh ? "ssh " + record.name : "none",
               record.spec.workspace.string()});
  }
  return table.text(output_width());
}

std::vector<run::RunStore::Listed> live_of(std::vector<run::RunStore::Listed> runs) {
  std::erase_if(runs, [](const auto& run) { return run::is_final(run.state); });
  return runs;
}

// What an instance lives as is told as the instance.
void leave_out_lives(std::vector<run::RunStore::Listed>& runs, const std::vector<app::ListedInstance>& instances) {
  std::erase_if(runs, [&](const auto& run) {
    return std::ranges::any_of(instances, [&](const auto& each) { return each.record.run_id == run.id; });
  });
}

void print_tables(const std::vector<app::ListedInstance>& instances, const std::vector<run::RunStore::Listed>& runs,
                  bool only_instances) {
  if (!instances.empty()) print(table_of(instances));
  if (only_instances && instances.empty()) return say("no instances yet; make one of the present folder: trail up");
  if (only_instances) return;
  if (runs.empty() && instances.empty()) return say("no runs yet; start one: trail run -- python train.py");
  if (runs.empty()) return;
  print((instances.empty() ? "" : "\n") + table_of(runs));
}

// Live runs, and the few that ended last, so that "what became of it?" needs no flag.
std::vector<run::RunStore::Listed> recent(std::vector<run::RunStore::Listed> runs) {
  std::size_t ended = 0;
  std::erase_if(runs, [&](const auto& run) { return run::is_final(run.state) && ++ended > k_latest_ended; });
  return runs;
}

}  // namespace

int ps_command(Words words) {
  bool all = false, json = false, only_instances = false;
  CommandLine line(k_manual);
  line.flag("-a,--all", all, "All runs");
  line.flag("--instances", only_instances, "Instances only");
  line.flag("--json", json, "Print JSON");
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  auto store = app::open_runs(*installation, reporter);
  if (!store) return report(store.error(), format);
  auto runs = store->list(run::RunStore::Which::all);
  if (!runs) return report(runs.error(), format);
  const auto instances = app::list_instances(*installation, *store, live_of(*runs));
  if (!json) leave_out_lives(*runs, instances);
  if (!all) *runs = recent(std::move(*runs));
  if (json) {
    Json told = app::to_json(*runs);
    told["instances"] = app::to_json(instances);
    if (only_instances) told.erase("runs");
    print_json(told);
  } else {
    print_tables(instances, *runs, only_instances);
  }
  return 0;
}

}  // namespace startrail::cli
