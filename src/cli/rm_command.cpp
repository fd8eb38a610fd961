#include <fmt/format.h>

#include "app/instances.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "rm",
                          .arguments = "[OPTIONS] NAME...",
                          .summary = "Remove instances: what was changed in them, their keys, their names for ssh.",
                          .examples =
                              "  trail rm lab\n"
                              "  trail rm --force lab     Stop it at once if it is up\n",
                          .notes = "The project's folder, its image and the volumes stay.\n"};

}  // namespace

int rm_command(Words words) {
  bool force = false, json = false;
  std::vector<std::string> names;
  CommandLine line(k_manual);
  line.flag("-f,--force", force, "Also one that is up");
  line.flag("--json", json, "Print JSON");
  line.arguments("name", names);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  if (names.empty())
    return report(base::error(ErrorCode::usage, "`trail rm` needs to know which instance")
                      .with_hint("see those that there are: trail ps --instances"),
                  format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  for (const auto& name : names) {
    const auto removed = app::remove_instance(*installation, name, force ? app::Force::yes : app::Force::no, reporter);
    if (!removed) return report(removed.error(), format);
    if (!json) say(fmt::format("{} is removed", name));
  }
  if (json) print_json(Json{{"removed", names}});
  return 0;
}

}  // namespace startrail::cli
