// Names of images: "ghcr.io/lab/train:1" → id. They belong to this store; a name that is given again moves.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/store.hpp"

namespace startrail::image {

// Printable, without white space, and nothing that could be taken for an id or the beginning of one: an archive gives
// its image a name, and must not be able to stand for another.
[[nodiscard]] bool is_image_name(const std::string& text);
using ImageNames = std::map<std::string, std::string>;  // name → id, without "sha256:"
[[nodiscard]] ImageNames image_names(const Store& store);
// Errors: invalid_input, with the first that is none.
[[nodiscard]] Result<void> check_names(const std::vector<std::string>& names);
// All at once, atomically. Errors: invalid_input (not an image name), permission, no_space.
[[nodiscard]] Result<void> name_image(const Store& store, const std::vector<std::string>& names, const std::string& id);
// Names of images that are gone go too.
[[nodiscard]] Result<void> forget_lost_names(const Store& store);
[[nodiscard]] std::optional<std::string> id_of_name(const Store& store, const std::string& name);
// The first of those that this image has, in order; "" if it has none.
[[nodiscard]] std::string name_of_image(const ImageNames& names, const std::string& id);

}  // namespace startrail::image
