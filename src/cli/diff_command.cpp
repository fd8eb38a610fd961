#include <fmt/format.h>

#include "app/diff_runs.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{
    .name = "diff",
    .arguments = "[OPTIONS] A B",
    .summary = "Show what differed between two runs: command, packages, image, code, environment, machine.",
    .examples =
        "  trail diff quiet-falcon-3f2a latest\n"
        "  trail diff --json A B\n"};

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : base::to_compact_text(value);
}

std::string members_text(const Json& section) {
  std::string text;
  for (const auto& [key, value] : section["added"].items()) text += fmt::format("  + {} {}\n", key, value_text(value));
  for (const auto& [key, value] : section["removed"].items())
    text += fmt::format("  - {} {}\n", key, value_text(value));
  for (const auto& [key, value] : section["changed"].items())
    text += fmt::format("  {}: {} -> {}\n", key, value_text(value["a"]), value_text(value["b"]));
  return text;
}

std::string code_text(const Json& section) {
  if (section.contains("unknown")) return fmt::format("  {}\n", value_text(section["unknown"]));
  std::string text;
  for (const auto& path : section["added"]) text += fmt::format("  + {}\n", value_text(path));
  for (const auto& path : section["removed"]) text += fmt::format("  - {}\n", value_text(path));
  for (const auto& file : section["changed"])
    text += file["diff"].is_string() ? file["diff"].get<std::string>()
                                     : fmt::format("  {} (binary or large)\n", value_text(file["path"]));
  return text;
}

std::string section_text(const std::string& name, const Json& section) {
  if (name == "code") return code_text(section);
  if (section.contains("changed")) return members_text(section);
  return fmt::format("  a  {}\n  b  {}\n", value_text(section["a"]), value_text(section["b"]));
}

std::string result_text(const Json& result) {
  std::string text = base::string_at(result, "state");
  if (const auto cause = base::string_at(result, "cause"); !cause.empty()) text += ": " + cause;
  return text;
}

std::string difference_text(const Json& difference) {
  std::string text;
  for (const auto& [name, section] : difference["differences"].items())
    if (!section.is_null()) text += fmt::format("{}\n{}", name, section_text(name, section));
  if (text.empty()) text = "nothing differs in what was run, where and with what\n";
  return text + fmt::format("results\n  a  {}  {}\n  b  {}  {}\n", base::string_at(difference, "a"),
                            result_text(difference["results"]["a"]), base::string_at(difference, "b"),
                            result_text(difference["results"]["b"]));
}

}  // namespace

int diff_command(Words words) {
  bool json = false;
  std::vector<std::string> runs;
  CommandLine line(k_manual);
  line.flag("--json", json, "Print JSON");
  line.arguments("runs", runs);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  if (runs.size() != 2)
    return report(base::error(ErrorCode::usage, "`trail diff` compares two runs")
                      .with_hint("name both: trail diff quiet-falcon-3f2a latest")
                      .with_hint("see them: trail ps -a"),
                  format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto difference = app::diff_runs(*installation, runs[0], runs[1], reporter);
  if (!difference) return report(difference.error(), format);
  if (json)
    print_json(*difference);
  else
    print(difference_text(*difference));
  return 0;
}

}  // namespace startrail::cli
