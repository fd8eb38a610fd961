#include "app/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "catalog/catalog.hpp"
#include "image/oci/archive_sources.hpp"
#include "image/oci/import_image.hpp"
#include "image/oci/names.hpp"
#include "image/store.hpp"

namespace startrail::app {
namespace {

// What others are to call it. They insist on a name, and docker on one with a tag, in small letters.
std::string tag_of(const std::string& name, const std::string& id, image::ArchiveFormat format) {
  const bool fits = !name.empty() && std::ranges::all_of(name, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') ||
           std::string_view("._-/:").find(letter) != std::string_view::npos;
  });
  if (!fits) return "startrail:" + id.substr(7, 12);
  const std::size_t slash = name.rfind('/');
  const bool has_tag = name.find(':', slash == std::string::npos ? 0 : slash) != std::string::npos;
  return has_tag || format != image::ArchiveFormat::docker_tar ? name : name + ":latest";
}

// The user's own name for it, or else those that the archive gives it, as far as they are names of images: a
// combination's name (pytorch:2.6) stays the catalog's, whatever somebody calls an archive.
std::vector<std::string> names_for(const std::optional<std::string>& name, std::vector<std::string> given) {
  if (name) return {*name};
  std::erase_if(given, [](const std::string& text) { return !image::is_image_name(text) || catalog::is_name(text); });
  return given;
}

// A name that the archive brought, not the user, moves from one image to another: that must be seen.
void tell_moved(const image::ImageNames& before, const std::vector<std::string>& names, const std::string& id,
                Reporter& reporter) {
  constexpr std::size_t k_shown = 12;
  const std::string now = id.starts_with("sha256:") ? id.substr(7) : id;
  for (const std::string& name : names)
    if (const auto was = before.find(name); was != before.end() && was->second != now)
      reporter.note(fmt::format("{} was {}, is now {}", name, was->second.substr(0, k_shown), now.substr(0, k_shown)));
}

Result<LoadedImage> import(const Installation& installation, image::ImageSource& source, std::vector<std::string> names,
                           Reporter& reporter) {
  TRY(image::check_names(names));
  auto image = TRY(image::import_image(installation.paths.store(), source, {.names = names}, reporter));
  return LoadedImage{.image = std::move(image), .names = std::move(names)};
}

fs::path scratch_of(const Installation& installation) {
  return installation.paths.store() / "staging";
}

}  // namespace

Result<SavedImage> save_image(const Installation& installation, const SaveRequest& request, Reporter& reporter) {
  TRY(prepare_state(installation));
  const fs::path store = installation.paths.store();
  SavedImage saved{.id = TRY(image::open(store, request.image)).id, .name = {}, .manifest = {}};
  saved.name = image::name_of_image(image::image_names(image::Store::at(store)), saved.id);
  const auto target =
      TRY(image::create_archive(request.output, request.format, tag_of(saved.name, saved.id, request.format)));
  const bool plain = request.format == image::ArchiveFormat::docker_tar;
  saved.manifest = TRY(image::export_image(
      store, saved.id, *target, {.compression = plain ? image::Compression::none : request.compression}, reporter));
  TRY(target->finish());
  return saved;
}

Result<LoadedImage> load_image(const Installation& installation, const LoadRequest& request, Reporter& reporter) {
  TRY(prepare_state(installation));
  auto archive = TRY(image::open_archive(request.input, request.wanted, scratch_of(installation)));
  const auto before = image::image_names(image::Store::at(installation.paths.store()));
  auto loaded = TRY(import(installation, *archive.source, names_for(request.name, std::move(archive.names)), reporter));
  if (!request.name) tell_moved(before, loaded.names, loaded.image.id, reporter);
  return loaded;
}

Result<LoadedImage> import_root_filesystem(const Installation& installation, const LoadRequest& request,
                                           Reporter& reporter) {
  TRY(prepare_state(installation));
  const auto source = TRY(image::open_root_filesystem(request.input, reporter));
  return import(installation, *source, names_for(request.name, {}), reporter);
}

Json to_json(const SavedImage& saved) {
  return Json{{"id", saved.id},
              {"name", saved.name.empty() ? Json(nullptr) : Json(saved.name)},
              {"manifest_digest", saved.manifest.digest},
              {"manifest_bytes", saved.manifest.size}};
}

Json to_json(const LoadedImage& loaded) {
  return Json{{"id", loaded.image.id},
              {"names", loaded.names},
              {"python", loaded.image.python.empty() ? Json(nullptr) : Json(loaded.image.python)}};
}

}  // namespace startrail::app
