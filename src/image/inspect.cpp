// Images that are there: opening, telling, listing.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "image/image_folder.hpp"
#include "image/oci/names.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/verify/verify.hpp"

namespace startrail::image {
namespace {

Result<std::string> find_id(const Store& store, const std::string& id_or_prefix) {
  if (!id_or_prefix.starts_with("sha256:"))
    if (auto named = id_of_name(store, id_or_prefix)) return std::move(*named);
  const std::string prefix = id_or_prefix.starts_with("sha256:") ? id_or_prefix.substr(7) : id_or_prefix;
  std::vector<std::string> found;
  if (!prefix.empty())
    for (std::string& id : image_ids(store))
      if (id.starts_with(prefix)) found.push_back(std::move(id));
  if (found.size() == 1) return found.front();
  const auto hint = "see those that are here: trail image list";
  if (found.empty())
    return base::fail(
        base::error(ErrorCode::not_found, fmt::format("there is no image {} here", id_or_prefix)).with_hint(hint));
  return base::fail(
      base::error(ErrorCode::invalid_input, fmt::format("{} images begin with {}", found.size(), id_or_prefix))
          .with_hint("give more digits; " + std::string(hint)));
}

Result<Json> read_details(const Store& store, const std::string& id) {
  return base::read_json_file(store.image(id) / "details.json");
}

base::Time created(const Json& details) {
  return base::parse_time(base::string_at(details, "created")).value_or(base::Time());
}

}  // namespace

Result<Image> open(const fs::path& store_path, const std::string& id_or_prefix) {
  const Store store = Store::at(store_path);
  const std::string id = TRY(find_id(store, id_or_prefix));
  const Manifest manifest = TRY(read_manifest(store, id));
  touch_image(store, id);
  if (!manifest.parent.empty() && !is_pulled(store, id)) touch_image(store, manifest.parent);
  return image_from_manifest(store, id, manifest);
}

Result<Json> inspect(const fs::path& store_path, const std::string& id_or_prefix) {
  const Store store = Store::at(store_path);
  const std::string id = TRY(find_id(store, id_or_prefix));
  const Manifest manifest = TRY(read_manifest(store, id));
  Json result{{"id", "sha256:" + id}, {"last_used", base::to_text(last_used(store, id))}};
  const Json details = TRY(read_details(store, id));
  for (const auto& [key, value] : details.items()) result[key] = value;
  const std::string name = name_of_image(image_names(store), id);
  result["name"] = name.empty() ? Json(nullptr) : Json(name);
  result["parent"] = manifest.parent.empty() ? Json(nullptr) : Json(manifest.parent);
  result["verification"] = stored_verification(store_path, id);
  const auto image = image_from_manifest(store, id, manifest);
  result["usable"] = image.has_value();
  result["bytecode"] = image && image->has_bytecode;
  Json layers = Json::array();
  if (image)
    for (const fs::path& layer : image->layers) layers.push_back(layer.string());
  result["layers"] = std::move(layers);
  return result;
}

Result<std::vector<Summary>> list(const fs::path& store_path) {
  const Store store = Store::at(store_path);
  std::vector<Summary> images;
  const ImageNames names = image_names(store);
  for (const std::string& id : image_ids(store)) {
    const auto details = read_details(store, id);
    if (!details) continue;  // being removed, or damaged: verify_store tells
    images.push_back({.id = "sha256:" + id,
                      .name = name_of_image(names, id),
                      .origin = base::string_at(base::member(*details, "origin"), "source"),
                      .framework = base::string_at(*details, "framework"),
                      .framework_version = base::string_at(*details, "framework_version"),
                      .python = base::string_at(*details, "python"),
                      .suite = base::string_at(*details, "suite"),
                      .size = {static_cast<std::uint64_t>(base::integer_at(*details, "size_bytes"))},
                      .packages = static_cast<int>(base::member(*details, "packages").size()),
                      .created = created(*details),
                      .last_used = last_used(store, id)});
  }
  std::ranges::sort(images, std::greater<>(), &Summary::created);
  return images;
}

}  // namespace startrail::image
