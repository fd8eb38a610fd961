#include <fmt/format.h>

#include "app/background.hpp"
#include "app/exchange.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "image load",
                          .arguments = "[OPTIONS] PATH",
                          .summary = "Take an image from an OCI layout or a docker archive; prints its id.",
                          .examples =
                              "  trail image load image.tar                    Plain, .tar.gz or .tar.zst\n"
                              "  trail image load image/ --name lab/train      A folder; called so here\n"};

}  // namespace

int image_load_command(Words words) {
  std::optional<std::string> path, name, wanted;
  bool json = false;
  CommandLine line(k_manual);
  line.value("--name", name, "NAME", "What the image is called here; else as it is called there");
  line.value("--image", wanted, "NAME", "Which one, of several");
  line.flag("--json", json, "Print JSON");
  line.argument("path", path);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  if (!path)
    return report(base::error(ErrorCode::usage, "`trail image load` needs a file or a folder")
                      .with_hint("for example: trail image load image.tar"),
                  format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto loaded =
      app::load_image(*installation, {.input = *path, .wanted = wanted.value_or(""), .name = name}, reporter);
  reporter.finish();
  if (!loaded) return report(loaded.error(), format);
  app::compile_bytecode_in_background(*installation, loaded->image, app::Begin::at_once);
  if (json)
    print_json(app::to_json(*loaded));
  else
    print(fmt::format("{}\n", loaded->image.id));
  return 0;
}

}  // namespace startrail::cli
