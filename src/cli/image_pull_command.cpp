#include <fmt/format.h>

#include <algorithm>

#include "app/background.hpp"
#include "app/registry_images.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "image pull",
                          .arguments = "[OPTIONS] REFERENCE",
                          .summary = "Copy an image from a registry into the store; prints its id.",
                          .examples =
                              "  trail image pull ghcr.io/lab/train:1\n"
                              "  trail image pull docker://python:3.12-slim\n"
                              "  trail run --image ghcr.io/lab/train:1 -- python train.py    Pulls what isn't here\n",
                          .notes =
                              "Credentials are those that `docker login` and `podman login` keep. A pull that ended "
                              "early goes on where it was."};

struct Options {
  std::optional<std::string> reference;
  std::vector<std::string> names;
  bool plain_http = false, json = false;
};

Result<app::PullRequest> request_of(const Options& options) {
  if (!options.reference)
    return fail(base::error(ErrorCode::usage, "`trail image pull` needs to know which image")
                    .with_hint("for example: trail image pull ghcr.io/lab/train:1"));
  return app::PullRequest{
      .reference = *options.reference,
      .names = options.names,
      .plain_http = options.plain_http ? image::PlainHttp::everywhere : image::PlainHttp::on_loopback};
}

std::string story_of(const app::Exchange& done) {
  const auto there = std::ranges::count(done.layers, "was there", &app::ExchangedLayer::way);
  return fmt::format("pulled {}: {} layers, {} fetched, {} were there", done.reference, done.layers.size(),
                     base::to_text(Bytes{done.bytes}), there);
}

}  // namespace

int image_pull_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.values("--name", options.names, "NAME", "Another name for it, as in `trail run --image NAME`");
  line.flag("--plain-http", options.plain_http, "Speak to the registry without TLS; on loopback that needs no option");
  line.flag("--json", options.json, "Print JSON");
  line.argument("reference", options.reference);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto request = request_of(options);
  if (!request) return report(request.error(), format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto done = app::pull_image(*installation, *request, reporter);
  reporter.finish();
  if (!done) return report(done.error(), format);
  app::compile_bytecode_in_background(*installation, done->image, app::Begin::at_once);
  if (options.json) {
    print_json(app::to_json(*done, "fetched_bytes"));
    return 0;
  }
  say(story_of(*done));
  print(fmt::format("{}\n", done->image.id));
  return 0;
}

}  // namespace startrail::cli
