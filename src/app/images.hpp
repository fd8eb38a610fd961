// `trail image list|prune` beyond what the image module says by itself.
#pragma once

#include <vector>

#include "app/installation.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "image/image.hpp"
#include "image/verify/verify.hpp"

namespace startrail::app {

// {"images": […]}, newest first.
[[nodiscard]] Json to_json(const std::vector<image::Summary>& images);

// {"images": […], "wheels_bytes", …, "total_bytes", "unneeded_bytes"}.
[[nodiscard]] Json to_json(const image::DiskUsage& usage);

// Removes images, keeping those that live runs use.
[[nodiscard]] Result<image::PruneResult> prune_images(const Installation& installation, image::PruneOptions options,
                                                      Reporter& reporter);

// Removes what is damaged, but for what live runs use.
[[nodiscard]] Result<image::RepairResult> repair_store(const Installation& installation, Reporter& reporter);

struct Verified {
  image::Verification verification;
  Json statement;     // in-toto
  bool kept = false;  // with the image: a verification in all levels
};
// `levels` empty: all of them. Errors: those of image::verify_image.
[[nodiscard]] Result<Verified> verify_image(const Installation& installation, const std::string& image,
                                            const std::vector<image::Level>& levels, Reporter& reporter);

}  // namespace startrail::app
