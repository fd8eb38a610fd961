// Images written to files: an OCI layout as a folder or a tar file, and the archive that `docker load` reads.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "image/exchange.hpp"

namespace startrail::image {

class ArchiveTarget : public ImageTarget {
 public:
  // After the image's manifest: the archive appears, whole, under its name.
  [[nodiscard]] virtual Result<void> finish() = 0;
};

enum class ArchiveFormat { oci_folder, oci_tar, docker_tar };

// `tag`: what the image is called inside. A tar file replaces one of its name; a folder may be a layout already, and
// then has one image more. A tar file that isn't finished goes; of a folder blobs may stay that its index doesn't name.
// Errors: conflict (a folder that is no layout), permission, no_space.
[[nodiscard]] Result<std::unique_ptr<ArchiveTarget>> create_archive(const std::filesystem::path& path,
                                                                    ArchiveFormat format, const std::string& tag);

}  // namespace startrail::image
