// An image on disk: its manifest, which names it, and what is told about it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "image/environment_tree.hpp"
#include "image/image.hpp"
#include "image/store.hpp"

namespace startrail::image {

struct ManifestWheel {
  std::string name, sha256;  // of the wheel
  std::string direct_url;    // "" for a package of an index
};

// What decides an image, and nothing else: the SHA-256 of its text is the image's id. No times, no addresses, no paths.
struct Manifest {
  std::string lock;    // lock::digest
  std::string python;  // "3.11"
  std::string base_recipe, base_digest;
  std::vector<ManifestWheel> wheels;  // sorted by name
  // Variables beside those that every image sets, "{site}" for its site-packages: lock::Lock::environment.
  std::vector<std::string> environment;
  // Of a derived image: the image that it adds editables to. Editing the code in the workspace changes neither; the
  // large image below doesn't know of them and is shared.
  std::string parent;
  // Of any image from elsewhere that isn't one of ours: what names it there, and its layers. All else is empty then.
  std::string oci_manifest;           // digest
  std::vector<std::string> diff_ids;  // bottom first
  [[nodiscard]] bool is_foreign() const { return !diff_ids.empty(); }
};
[[nodiscard]] std::string manifest_text(const Manifest& manifest);
[[nodiscard]] std::string manifest_id(const Manifest& manifest);  // "sha256:…"
// Reads what `manifest_text` writes. Errors: corrupt.
[[nodiscard]] Result<Manifest> parse_manifest(const std::string& text);
// Errors: not_found, corrupt (also when its text doesn't hash to the folder's name).
[[nodiscard]] Result<Manifest> read_manifest(const Store& store, const std::string& id);

// The image's merged files at its root: its own tree, or that of the system store's image that it stands on.
[[nodiscard]] std::filesystem::path image_tree(const Store& store, const std::string& id);

// Layers, environment and so on of an image that is there. Errors: not_found (its base or parent is gone).
[[nodiscard]] Result<Image> image_from_manifest(const Store& store, const std::string& id, const Manifest& manifest);

// Notes that the image was used now.
void touch_image(const Store& store, const std::string& id);
[[nodiscard]] base::Time last_used(const Store& store, const std::string& id);
// Ids of the images that are there, without "sha256:".
[[nodiscard]] std::vector<std::string> image_ids(const Store& store);

}  // namespace startrail::image
