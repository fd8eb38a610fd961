// Images in files: OCI layouts (OCI image specification, "Image Layout Specification") and what `docker save` writes,
// as folders or tar files; and a root filesystem alone.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "image/exchange.hpp"

namespace startrail::image {

struct OpenedArchive {
  std::unique_ptr<ImageSource> source;
  std::vector<std::string> names;  // that the archive gives the image
};

// `wanted`: which image, by its name there; may be empty when there is only one. `scratch` is for what has to be
// expanded first. Errors: not_found, invalid_input (neither kind, or several images), corrupt.
[[nodiscard]] Result<OpenedArchive> open_archive(const std::filesystem::path& path, const std::string& wanted,
                                                 const std::filesystem::path& scratch);

// A tar of one root filesystem, compressed or not, as an image of one layer. Reads it once, for its digests.
[[nodiscard]] Result<std::unique_ptr<ImageSource>> open_root_filesystem(const std::filesystem::path& file,
                                                                        Reporter& reporter);

}  // namespace startrail::image
