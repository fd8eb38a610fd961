// `trail image save|load|import`: images to and from files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "app/installation.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "image/image.hpp"
#include "image/oci/archive_targets.hpp"
#include "image/oci/export_image.hpp"

namespace startrail::app {

struct SaveRequest {
  std::string image;  // id, prefix or name
  std::filesystem::path output;
  image::ArchiveFormat format = image::ArchiveFormat::oci_tar;
  image::Compression compression = image::Compression::zstd;
};
struct SavedImage {
  std::string id, name;        // "" when the image has no name here
  image::Descriptor manifest;  // what it is called elsewhere
};
// Errors: those of image::export_image and image::create_archive.
[[nodiscard]] Result<SavedImage> save_image(const Installation& installation, const SaveRequest& request,
                                            Reporter& reporter);

struct LoadRequest {
  std::filesystem::path input;
  std::string wanted;               // which image of the archive; "" for its only one
  std::optional<std::string> name;  // else the archive's own
};
struct LoadedImage {
  image::Image image;
  std::vector<std::string> names;
};
// Errors: those of image::import_image and image::open_archive.
[[nodiscard]] Result<LoadedImage> load_image(const Installation& installation, const LoadRequest& request,
                                             Reporter& reporter);
// A tar of a root filesystem.
[[nodiscard]] Result<LoadedImage> import_root_filesystem(const Installation& installation, const LoadRequest& request,
                                                         Reporter& reporter);

[[nodiscard]] Json to_json(const SavedImage& saved);
[[nodiscard]] Json to_json(const LoadedImage& loaded);

}  // namespace startrail::app
