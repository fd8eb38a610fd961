#include <fmt/format.h>

#include "app/doctor.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "doctor",
                          .arguments = "--log FILE",
                          .summary = "Find the cause behind an error in a log.",
                          .examples =
                              "  trail doctor --log train.log              What went wrong there, and what to do\n"
                              "  python train.py 2>&1 | trail doctor --log -\n"
                              "  trail doctor --log train.log --json       The same for scripts\n",
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

}  // namespace

int doctor_command(Words words) {
  std::optional<std::string> log;
  bool json = false;
  CommandLine line(k_manual);
  line.value("--log", log, "FILE", "The text to look at; - for standard input");
  line.flag("--json", json, "Print JSON");
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  if (!log)
    return report(base::error(ErrorCode::usage, "which log?")
                      .with_hint("`trail doctor --log FILE`, or `--log -` for standard input"),
                  format);
  const auto findings = app::diagnose_log(*log);
  if (!findings) return report(findings.error(), format);
  if (json) {
    print_json(app::to_json(*findings));
  } else if (findings->empty()) {
    say("no known cause of a failure is in " + *log);
  } else {
    std::string text;
    for (const auto& finding : *findings) text += (text.empty() ? "" : "\n") + text_of(finding);
    print(text);
  }
  return 0;
}

}  // namespace startrail::cli
