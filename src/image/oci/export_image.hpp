// An image of the store, written as the OCI image specification says: few layers that images share, the same bytes on
// every machine.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "image/exchange.hpp"

namespace startrail::image {

// `none` is for docker archives, whose layers are plain.
enum class Compression { zstd, gzip, none };

struct ExportOptions {
  Compression compression = Compression::zstd;
  int workers = 0;  // threads that compress; 0: one for each core
};

// Layers bottom up: the base, one for each big wheel, one of everything else; then config, manifest (tagged), SBOM and
// provenance as referrers. Returns the manifest's descriptor. A layer that the target has is neither compressed nor
// sent. The result depends on the image and the compression alone.
// Errors: those of `open` and of the target; no_space, corrupt (a file changed underneath).
[[nodiscard]] Result<Descriptor> export_image(const std::filesystem::path& store, const std::string& image,
                                              ImageTarget& target, const ExportOptions& options, Reporter& reporter);

}  // namespace startrail::image
