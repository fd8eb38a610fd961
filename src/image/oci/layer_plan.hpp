// Which files of an image make which layer, bottom first: the base, each big wheel, all that is left of the
// environment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/image_folder.hpp"
#include "image/oci/tar_writer.hpp"

namespace startrail::image {

// A wheel of this size or more, unpacked, has a layer of its own, which every image that has the wheel shares.
inline constexpr std::uint64_t k_big_wheel = 16U << 20U;

struct LayerItem {
  TarItem item;
  std::filesystem::path file = {};  // of a file: its content
};

struct PlannedLayer {
  std::string title;       // "torch 2.6.0"
  std::string key;         // decides its bytes: the same on every machine
  std::uint64_t size = 0;  // about, for the order of work
  std::function<Result<std::vector<LayerItem>>()> items;
};

// Errors: those of read_manifest and read_wheel_tree, not_found (its base is gone).
[[nodiscard]] Result<std::vector<PlannedLayer>> plan_layers(const Store& store, const std::string& id,
                                                            const Manifest& manifest);

}  // namespace startrail::image
