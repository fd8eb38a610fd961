#include <fmt/format.h>

#include "app/instances.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "down",
                          .arguments = "[OPTIONS] [NAME]",
                          .summary = "Stop an instance with all that runs in it; what was changed inside is kept.",
                          .examples =
                              "  trail down               That of the present folder\n"
                              "  trail down lab\n"
                              "  trail down --grace 5s    Kill what hasn't ended after 5 seconds\n"};

}  // namespace

int down_command(Words words) {
  bool json = false;
  std::optional<std::string> grace, name;
  CommandLine line(k_manual);
  line.value("--grace", grace, "TIME", "KILL after this long, if sooner than the instance's own grace");
  line.flag("--json", json, "Print JSON");
  line.argument("name", name);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  std::optional<int> seconds;
  if (grace) {
    const auto parsed = app::parse_grace(*grace);
    if (!parsed) return report(parsed.error(), format);
    seconds = *parsed;
  }
  const auto chosen = app::instance_name(*installation, name);
  if (!chosen) return report(chosen.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto stopped = app::down(*installation, *chosen, seconds, reporter);
  reporter.finish();
  if (!stopped) return report(stopped.error(), format);
  if (json)
    print_json(Json{{"name", *chosen}, {"state", "down"}});
  else
    say(fmt::format("{} is down; `trail up` starts it as it is, `trail rm` removes it", *chosen));
  return 0;
}

}  // namespace startrail::cli
