#include "image/oci/pulled_image.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include "base/files.hpp"
#include "base/json.hpp"

namespace startrail::image {

bool is_pulled(const Store& store, const std::string& id) {
  return ::access((store.image(id) / "layers.json").c_str(), F_OK) == 0;
}

std::vector<std::string> pulled_layers(const Store& store, const std::string& id) {
  if (!is_pulled(store, id)) return {};
  const auto json = base::read_json_file(store.image(id) / "layers.json");
  return json ? base::strings_at(*json, "layers") : std::vector<std::string>();
}

std::vector<std::string> pulled_titles(const Store& store, const std::string& id) {
  std::vector<std::string> titles;
  if (const auto json = base::read_json_file(store.image(id) / "layers.json"))
    titles = base::strings_at(*json, "titles");
  titles.resize(pulled_layers(store, id).size());
  return titles;
}

std::string layers_text(const std::vector<std::string>& diff_ids, const std::vector<std::string>& titles) {
  return base::to_pretty_text(Json{{"layers", diff_ids}, {"titles", titles}});
}

Result<MergedTree> merged_layers(const Store& store, const std::vector<std::string>& diff_ids) {
  MergedTree tree;
  for (const std::string& diff_id : diff_ids) {
    const LayerContents contents = TRY(read_contents(store, diff_id));
    TRY(tree.apply(contents));
  }
  return tree;
}

std::string origin_of(const Store& store, const std::string& id) {
  if (!is_pulled(store, id)) return "";
  const auto details = base::read_json_file(store.image(id) / "details.json");
  return details ? base::string_at(base::member(*details, "origin"), "source") : "";
}

}  // namespace startrail::image
