#include <fmt/format.h>

#include "app/doctor.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "doctor",
                          .arguments = "[OPTIONS] [RUN]",
                          .summary = "Find the cause behind an error, in what a run printed or in any log.",
                          .examples =
                              "  trail doctor latest                       Why did it fail, and what to do\n"
                              "  trail doctor --log train.log              The same for a log of any program\n"
                              "  python train.py 2>&1 | trail doctor --log -\n"
                              "  trail doctor latest --json                For scripts\n",
                          .notes =
                              "Finding nothing is an answer too, and a guess is called one. The log may come from any\n"
                              "tool and any machine.\n"};

std::string text_of(const diagnose::Finding& finding) {
  std::string text =
      fmt::format("{} ({}, {})\n", finding.summary, finding.cause, diagnose::certainty(finding.confidence));
  for (const auto& evidence : finding.evidence)
    text += fmt::format("  {}:{}: {}\n", evidence.source, evidence.line, evidence.text);
  for (const auto& fix : finding.fixes) text += fmt::format("  fix: {}\n", fix);
  return text;
}

Result<std::vector<diagnose::Finding>> look(const std::optional<std::string>& log,
                                            const std::optional<std::string>& run) {
  if (log.has_value() == run.has_value())
    return fail(base::error(ErrorCode::usage, log ? "a run and a log at once" : "which run, or which log?")
                    .with_hint("`trail doctor latest` for the latest run")
                    .with_hint("`trail doctor --log FILE`, or `--log -` for standard input"));
  if (log) return app::diagnose_log(*log);
  const auto installation = TRY(app::find_installation());
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  return app::diagnose_run(installation, *run, reporter);
}

}  // namespace

int doctor_command(Words words) {
  std::optional<std::string> log, run;
  bool json = false;
  CommandLine line(k_manual);
  line.value("--log", log, "FILE", "The text to look at; - for standard input");
  line.flag("--json", json, "Print JSON");
  line.argument("run", run);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto findings = look(log, run);
  if (!findings) return report(findings.error(), format);
  if (json) {
    print_json(app::to_json(*findings));
  } else if (findings->empty()) {
    say(fmt::format("no known cause of a failure is in {}", !log ? "what the run printed" : *log == "-" ? "it" : *log));
  } else {
    std::string text;
    for (const auto& finding : *findings) text += (text.empty() ? "" : "\n") + text_of(finding);
    print(text);
  }
  return 0;
}

}  // namespace startrail::cli
