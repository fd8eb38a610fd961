#include <fmt/format.h>

#include <algorithm>

#include "app/doctor.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{
    .name = "doctor",
    .arguments = "[OPTIONS] [RUN]",
    .summary = "Look for what is wrong: with this host and folder, with a run, or in any log.",
    .examples =
        "  trail doctor                              This host, and what a run here would meet\n"
        "  trail doctor --fix                        The commands that mend this host\n"
        "  trail doctor latest                       Why did it fail, and what to do\n"
        "  trail doctor --log train.log              The same for a log of any program\n"
        "  python train.py 2>&1 | trail doctor --log -\n"
        "  trail doctor latest --json                For scripts\n",
    .notes =
        "Finding nothing is an answer too, and a guess is called one. The log may come from any\n"
        "tool and any machine. Exit code 1: something about this host or folder is certain to be\n"
        "in the way of a run.\n"};

std::string text_of(const diagnose::Finding& finding) {
  std::string text =
      fmt::format("{} ({}, {})\n", finding.summary, finding.cause, diagnose::certainty(finding.confidence));
  for (const auto& evidence : finding.evidence)
    text += evidence.line == 0 ? fmt::format("  {}: {}\n", evidence.source, evidence.text)
                               : fmt::format("  {}:{}: {}\n", evidence.source, evidence.line, evidence.text);
  for (const auto& fix : finding.fixes) text += fmt::format("  fix: {}\n", fix);
  for (const auto& command : finding.commands) text += fmt::format("  # {}\n", command);
  return text;
}

struct Options {
  std::optional<std::string> log, run, folder;
  bool fix = false, yes = false, json = false;
};

Result<void> check(const Options& options) {
  const auto wrong = [](std::string message) {
    return fail(base::error(ErrorCode::usage, std::move(message))
                    .with_hint("`trail doctor` for this host and folder, `trail doctor latest` for the latest run")
                    .with_hint("`trail doctor --log FILE`, or `--log -` for standard input"));
  };
  const bool of_text = options.log || options.run;
  if (options.log && options.run) return wrong("a run and a log at once");
  if (of_text && (options.fix || options.folder)) return wrong("--fix and --dir are about this host and folder");
  if (options.yes && !options.fix) return wrong("--yes is for --fix");
  return {};
}

Result<std::vector<diagnose::Finding>> look_at_text(const Options& options) {
  if (options.log) return app::diagnose_log(*options.log);
  const auto installation = TRY(app::find_installation());
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  return app::diagnose_run(installation, *options.run, reporter);
}

std::string text_of(const std::vector<diagnose::Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) text += (text.empty() ? "" : "\n") + text_of(finding);
  return text;
}

int show_findings(const Options& options, const std::vector<diagnose::Finding>& findings) {
  if (options.json)
    print_json(app::to_json(findings));
  else if (findings.empty())
    say(fmt::format("no known cause of a failure is in {}", !options.log          ? "what the run printed"
                                                            : *options.log == "-" ? "it"
                                                                                  : *options.log));
  else
    print(text_of(findings));
  return 0;
}

std::vector<diagnose::Finding> all_of(const app::CheckUp& found) {
  auto findings = found.host.findings;
  if (found.project) findings.insert(findings.end(), found.project->findings.begin(), found.project->findings.end());
  return findings;
}

int show_check_up(const Options& options, const app::CheckUp& found) {
  const auto findings = all_of(found);
  if (options.json) {
    print_json(app::to_json(found));
  } else {
    print(fmt::format("host     {}\n", found.host.story));
    if (found.project) print(fmt::format("project  {}\n", found.project->story));
    if (findings.empty())
      say("nothing that is known stands in the way of a run here");
    else
      print("\n" + text_of(findings));
  }
  const bool blocked = std::ranges::any_of(
      findings, [](const auto& finding) { return diagnose::certainty(finding.confidence) == "certain"; });
  return blocked ? 1 : 0;
}

// Prints the commands that mend this host, or runs them one after the other.
Result<int> fix(const app::Installation& installation, const Options& options, const app::CheckUp& found) {
  const auto commands = app::commands_of(found);
  if (commands.empty()) {
    say("nothing about this host can be mended by a command");
    return show_check_up(options, found);
  }
  if (!options.yes) {
    if (options.json) return show_check_up(options, found);
    for (const std::string& command : commands) print(command + "\n");
    say("as root, in this order; `trail doctor --fix --yes` runs them");
    return 0;
  }
  for (const std::string& command : commands) {
    say("+ " + command);
    TRY(app::run_as_root(command));
  }
  return show_check_up(options, TRY(app::check_up(installation, options.folder.value_or("."))));
}

Result<int> examine(const Options& options) {
  if (options.log || options.run) return show_findings(options, TRY(look_at_text(options)));
  const auto installation = TRY(app::find_installation());
  const auto found = TRY(app::check_up(installation, options.folder.value_or(".")));
  return options.fix ? fix(installation, options, found) : show_check_up(options, found);
}

}  // namespace

int doctor_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.value("--log", options.log, "FILE", "The text to look at; - for standard input");
  line.value("--dir", options.folder, "DIR", "The folder to look at, instead of the present one");
  line.flag("--fix", options.fix, "Print the commands that mend this host");
  line.flag("--yes", options.yes, "With --fix: run them, as root");
  line.flag("--json", options.json, "Print JSON");
  line.argument("run", options.run);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  if (const auto usable = check(options); !usable) return report(usable.error(), format);
  const auto code = examine(options);
  return code ? *code : report(code.error(), format);
}

}  // namespace startrail::cli
