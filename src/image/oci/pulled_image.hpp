// What the store keeps of an image that came from elsewhere, beside its tree.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/image_folder.hpp"
#include "image/oci/merged_tree.hpp"

namespace startrail::image {

// images/<id>/layers.json: the layers that its tree is made from, bottom first; an image of ours has its base beside
// them.
[[nodiscard]] bool is_pulled(const Store& store, const std::string& id);
// None for an image that was built here.
[[nodiscard]] std::vector<std::string> pulled_layers(const Store& store, const std::string& id);
// What each was called where it came from, in the same order, so that it is called so again; "" for one without a
// title.
[[nodiscard]] std::vector<std::string> pulled_titles(const Store& store, const std::string& id);
[[nodiscard]] std::string layers_text(const std::vector<std::string>& diff_ids, const std::vector<std::string>& titles);
// Its layers laid over each other. Errors: not_found, corrupt.
[[nodiscard]] Result<MergedTree> merged_layers(const Store& store, const std::vector<std::string>& diff_ids);
// "ghcr.io/lab/train:1" of details.json; "" for an image that was built here.
[[nodiscard]] std::string origin_of(const Store& store, const std::string& id);

}  // namespace startrail::image
