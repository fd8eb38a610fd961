#include <fmt/format.h>

#include "app/registry_images.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "image push",
                          .arguments = "[OPTIONS] IMAGE REFERENCE",
                          .summary = "Copy an image into a registry; prints the digest that it has there.",
                          .examples =
                              "  trail image push 3f2a ghcr.io/lab/train:1       With the login of docker or podman\n"
                              "  trail image push 3f2a localhost:5000/train:1    A registry on this machine\n",
                          .notes = "Layers that the registry has already are not sent again."};

struct Options {
  std::optional<std::string> image, reference, compression;
  bool plain_http = false, json = false;
};

Result<image::Compression> compression_of(const std::string& name) {
  if (name == "zstd") return image::Compression::zstd;
  if (name == "gzip") return image::Compression::gzip;
  return fail(base::error(ErrorCode::usage, fmt::format("--compression `{}` is not known", name))
                  .with_hint("zstd, or gzip for what reads nothing else"));
}

Result<app::PushRequest> request_of(const Options& options) {
  if (!options.image || !options.reference)
    return fail(base::error(ErrorCode::usage, "`trail image push` needs an image, and where to push it")
                    .with_hint("for example: trail image push 3f2a ghcr.io/lab/train:1")
                    .with_hint("see the images that are here: trail image list"));
  return app::PushRequest{
      .image = *options.image,
      .reference = *options.reference,
      .compression = TRY(compression_of(options.compression.value_or("zstd"))),
      .plain_http = options.plain_http ? image::PlainHttp::everywhere : image::PlainHttp::on_loopback};
}

std::string story_of(const app::Exchange& done) {
  int uploaded = 0, mounted = 0;
  for (const auto& layer : done.layers) {
    uploaded += layer.way == "uploaded" ? 1 : 0;
    mounted += layer.way == "mounted" ? 1 : 0;
  }
  return fmt::format("pushed {}: {} layers, {} sent ({}), {} mounted, {} were there", done.reference,
                     done.layers.size(), uploaded, base::to_text(Bytes{done.bytes}), mounted,
                     static_cast<int>(done.layers.size()) - uploaded - mounted);
}

}  // namespace

int image_push_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.value("--compression", options.compression, "KIND", "Of layers: zstd (default) or gzip");
  line.flag("--plain-http", options.plain_http, "Speak to the registry without TLS; on loopback that needs no option");
  line.flag("--json", options.json, "Print JSON");
  line.argument("image", options.image);
  line.argument("reference", options.reference);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto request = request_of(options);
  if (!request) return report(request.error(), format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto done = app::push_image(*installation, *request, reporter);
  reporter.finish();
  if (!done) return report(done.error(), format);
  if (options.json) {
    print_json(app::to_json(*done, "sent_bytes"));
    return 0;
  }
  say(story_of(*done));
  print(fmt::format("{}\n", done->digest));
  return 0;
}

}  // namespace startrail::cli
