// An image from elsewhere, made one of the store's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "image/exchange.hpp"
#include "image/image.hpp"

namespace startrail::image {

struct ImportOptions {
  std::vector<std::string> names;  // by which the image is found afterwards
  int workers = 0;                 // layers unpacked at once at least; 0: one for each core
};

// All layers are unpacked side by side while their bytes arrive, each checked against its digest and its diff id, then
// linked into one tree. An image of ours has the id that it had where it was exported; any other gets one of its own.
// What is there already is not read again. A failure leaves the store as it was, but for whole layers.
// Errors: those of the source; unsafe_path, corrupt, hash_mismatch, no_space, unsupported (another architecture).
[[nodiscard]] Result<Image> import_image(const std::filesystem::path& store, ImageSource& source,
                                         const ImportOptions& options, Reporter& reporter);

}  // namespace startrail::image
