#include <fmt/format.h>

#include "app/exchange.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "image import",
                          .arguments = "[OPTIONS] FILE",
                          .summary = "Make an image of a tar file with a root filesystem; prints its id.",
                          .examples = "  trail image import rootfs.tar.zst --name mine\n"};

}  // namespace

int image_import_command(Words words) {
  std::optional<std::string> file, name;
  bool json = false;
  CommandLine line(k_manual);
  line.value("--name", name, "NAME", "What the image is called here");
  line.flag("--json", json, "Print JSON");
  line.argument("file", file);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  if (!file)
    return report(base::error(ErrorCode::usage, "`trail image import` needs a tar file")
                      .with_hint("for example: trail image import rootfs.tar --name mine"),
                  format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto loaded =
      app::import_root_filesystem(*installation, {.input = *file, .wanted = {}, .name = name}, reporter);
  reporter.finish();
  if (!loaded) return report(loaded.error(), format);
  if (json)
    print_json(app::to_json(*loaded));
  else
    print(fmt::format("{}\n", loaded->image.id));
  return 0;
}

}  // namespace startrail::cli
