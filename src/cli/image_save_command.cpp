#include <fmt/format.h>

#include "app/exchange.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{
    .name = "image save",
    .arguments = "[OPTIONS] IMAGE",
    .summary = "Write an image to a file or a folder that other tools read; prints its digest there.",
    .examples =
        "  trail image save 3f2a -o image.tar                     An OCI layout in a tar file\n"
        "  trail image save 3f2a -o image/                        The same as a folder\n"
        "  trail image save 3f2a -o image.tar --format docker     For `docker load`\n"};

struct Options {
  std::optional<std::string> image, output, format, compression;
  bool json = false;
};

Result<image::ArchiveFormat> format_of(const Options& options) {
  const std::string format = options.format.value_or("oci");
  if (format == "docker") return image::ArchiveFormat::docker_tar;
  if (format == "oci")
    return options.output->ends_with(".tar") ? image::ArchiveFormat::oci_tar : image::ArchiveFormat::oci_folder;
  return fail(base::error(ErrorCode::usage, fmt::format("--format `{}`: it is either oci or docker", format)));
}

Result<image::Compression> compression_of(const Options& options) {
  const std::string compression = options.compression.value_or("zstd");
  if (compression == "zstd") return image::Compression::zstd;
  if (compression == "gzip") return image::Compression::gzip;
  return fail(base::error(ErrorCode::usage, fmt::format("--compression `{}`: it is either zstd or gzip", compression)));
}

Result<app::SaveRequest> request_of(const Options& options) {
  if (!options.image || !options.output)
    return fail(base::error(ErrorCode::usage, "`trail image save` needs an image, and where to write it")
                    .with_hint("for example: trail image save 3f2a -o image.tar")
                    .with_hint("see those that are here: trail image list"));
  return app::SaveRequest{.image = *options.image,
                          .output = *options.output,
                          .format = TRY(format_of(options)),
                          .compression = TRY(compression_of(options))};
}

}  // namespace

int image_save_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.value("-o,--output", options.output, "PATH", "A file that ends in .tar, or a folder");
  line.value("--format", options.format, "FORMAT", "oci (default) or docker");
  line.value("--compression", options.compression, "KIND", "zstd (default) or gzip, of the layers in an OCI layout");
  line.flag("--json", options.json, "Print JSON");
  line.argument("image", options.image);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto request = request_of(options);
  if (!request) return report(request.error(), format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto saved = app::save_image(*installation, *request, reporter);
  reporter.finish();
  if (!saved) return report(saved.error(), format);
  if (options.json)
    print_json(app::to_json(*saved));
  else
    print(fmt::format("{}\n", saved->manifest.digest));
  return 0;
}

}  // namespace startrail::cli
