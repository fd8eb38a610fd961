#include "image/oci/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/files.hpp"
#include "base/json.hpp"

namespace startrail::image {
namespace {

constexpr const char* k_key = "names";

fs::path names_file(const Store& store) {
  return store.folder("names.json");
}

Result<void> write_names(const Store& store, const ImageNames& names) {
  return base::write_file_atomic(names_file(store), base::to_pretty_text(Json(names)), 0644, base::Durable::yes);
}

}  // namespace

bool is_image_name(const std::string& text) {
  constexpr std::size_t k_longest = 512;
  constexpr std::string_view k_digits = "0123456789abcdef";
  const auto is_plain = [](unsigned char letter) { return letter > ' ' && letter != 0x7f; };
  return !text.empty() && text.size() <= k_longest && text.front() != '-' && std::ranges::all_of(text, is_plain) &&
         !text.starts_with("sha256:") && text.find_first_not_of(k_digits) != std::string::npos;
}

ImageNames image_names(const Store& store) {
  ImageNames names;
  const auto json = base::read_json_file(names_file(store));
  if (!json || !json->is_object()) return names;
  for (const auto& [name, id] : json->items())
    if (id.is_string()) names.emplace(name, id.get<std::string>());
  return names;
}

Result<void> check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!is_image_name(name))
      return base::fail(base::error(ErrorCode::invalid_input, fmt::format("`{}` can't be the name of an image", name))
                            .with_hint("for example: --name lab/train:1"));
  return {};
}

Result<void> name_image(const Store& store, const std::vector<std::string>& names, const std::string& id) {
  if (names.empty()) return {};
  TRY(check_names(names));
  const base::FileLock lock = TRY(store.lock(k_key));
  ImageNames all = image_names(store);
  for (const std::string& name : names) all[name] = store.image(id).filename().string();
  return write_names(store, all);
}

Result<void> forget_lost_names(const Store& store) {
  std::error_code ignored;
  if (!fs::exists(names_file(store), ignored)) return {};
  const base::FileLock lock = TRY(store.lock(k_key));
  ImageNames all = image_names(store);
  const auto lost = std::erase_if(
      all, [&](const auto& named) { return !fs::exists(store.image(named.second) / "manifest.json", ignored); });
  return lost == 0 ? Result<void>() : write_names(store, all);
}

std::optional<std::string> id_of_name(const Store& store, const std::string& name) {
  const ImageNames names = image_names(store);
  const auto found = names.find(name);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

std::string name_of_image(const ImageNames& names, const std::string& id) {
  const std::string bare = id.starts_with("sha256:") ? id.substr(7) : id;
  const auto found = std::ranges::find(names, bare, [](const auto& named) { return named.second; });
  return found == names.end() ? "" : found->first;
}

}  // namespace startrail::image
