// A planned layer as a packed file: its tar is never on the disk.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "image/exchange.hpp"
#include "image/oci/export_image.hpp"
#include "image/oci/layer_plan.hpp"
#include "image/oci/workers.hpp"

namespace startrail::image {

struct WrittenLayer {
  Descriptor blob;
  std::string diff_id;
};

struct WritingOptions {
  Compression compression = Compression::zstd;
  std::size_t pieces = 4;                            // in memory at once, k_piece each
  std::function<void(std::uint64_t)> on_bytes = {};  // of the tar
};

// Writes `file`, which must not exist. Errors: no_space, corrupt (a file has another size than it had), permission.
[[nodiscard]] Result<WrittenLayer> write_layer(const PlannedLayer& layer, const std::filesystem::path& file,
                                               const WritingOptions& options, Workers& workers);

}  // namespace startrail::image
