// `trail image list|prune` beyond what the image module says by itself.
#pragma once

#include <vector>

#include "app/installation.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "image/image.hpp"

namespace startrail::app {

// {"images": […]}, newest first.
[[nodiscard]] Json to_json(const std::vector<image::Summary>& images);

// Removes images, keeping those that live runs use.
[[nodiscard]] Result<image::PruneResult> prune_images(const Installation& installation, image::PruneOptions options,
                                                      Reporter& reporter);

// Removes what is damaged, but for what live runs use.
[[nodiscard]] Result<image::RepairResult> repair_store(const Installation& installation, Reporter& reporter);

}  // namespace startrail::app
