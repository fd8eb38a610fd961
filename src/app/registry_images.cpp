#include "app/registry_images.hpp"

#include <algorithm>

#include "image/oci/import_image.hpp"
#include "image/registry/registry_source.hpp"
#include "image/registry/registry_target.hpp"

namespace startrail::app {
namespace {

image::RegistryOptions options_for(const Installation& installation, image::PlainHttp plain_http) {
  return {.plain_http = plain_http, .environment = installation.environment};
}

// OCI image specification 1.1, "Image Manifest"; what isn't there is left empty.
Result<std::vector<ExchangedLayer>> layers_of(const image::ManifestText& manifest) {
  std::vector<ExchangedLayer> layers;
  const Json json = TRY(base::parse_json(manifest.text, "manifest"));
  for (const Json& layer : base::member(json, "layers"))
    layers.push_back({.digest = base::string_at(layer, "digest"),
                      .media_type = base::string_at(layer, "mediaType"),
                      .size = static_cast<std::uint64_t>(base::integer_at(layer, "size"))});
  return layers;
}

std::string name_of(image::RegistryTarget::Way way) {
  switch (way) {
    case image::RegistryTarget::Way::uploaded: return "uploaded";
    case image::RegistryTarget::Way::mounted: return "mounted";
    case image::RegistryTarget::Way::was_there: break;
  }
  return "was there";
}

// The reference in full, as it was typed, and what else was wanted: it is found again by each.
std::vector<std::string> names_for(const image::Reference& reference, const PullRequest& request) {
  std::vector<std::string> names{reference.text()};
  const std::string typed =
      request.reference.starts_with("docker://") ? request.reference.substr(9) : request.reference;
  if (typed != names.front()) names.push_back(typed);
  names.insert(names.end(), request.names.begin(), request.names.end());
  return names;
}

}  // namespace

Result<Exchange> push_image(const Installation& installation, const PushRequest& request, Reporter& reporter) {
  const auto reference = TRY(image::parse_reference(request.reference));
  const fs::path path = installation.paths.store();
  const auto image = TRY(image::open(path, request.image));
  const auto store = TRY(image::Store::open(path));
  const auto target = TRY(image::RegistryTarget::open(reference, store, options_for(installation, request.plain_http)));
  const auto digest =
      TRY(image::export_image(path, image.id, *target, {.compression = request.compression}, reporter)).digest;
  Exchange done{.image = image,
                .reference = reference.text(),
                .digest = digest,
                .layers = TRY(layers_of(target->manifest())),
                .bytes = target->sent()};
  const auto ways = target->ways();
  for (ExchangedLayer& layer : done.layers)
    if (const auto way = ways.find(layer.digest); way != ways.end()) layer.way = name_of(way->second);
  return done;
}

Result<Exchange> pull_image(const Installation& installation, const PullRequest& request, Reporter& reporter) {
  const auto reference = TRY(image::parse_reference(request.reference));
  TRY(prepare_state(installation));
  const fs::path path = installation.paths.store();
  const auto store = TRY(image::Store::open(path));
  reporter.step("pulling " + reference.text());
  const auto source = TRY(image::RegistrySource::open(reference, store, options_for(installation, request.plain_http)));
  const auto image = TRY(image::import_image(path, *source, {.names = names_for(reference, request)}, reporter));
  const auto manifest = TRY(source->manifest(""));
  Exchange done{.image = image,
                .reference = reference.text(),
                .digest = manifest.digest,
                .layers = TRY(layers_of(manifest)),
                .bytes = source->fetched()};
  const auto received = source->received();
  for (ExchangedLayer& layer : done.layers)
    layer.way = std::ranges::find(received, layer.digest) == received.end() ? "was there" : "fetched";
  return done;
}

Json to_json(const Exchange& exchange, const std::string& bytes_key) {
  Json layers = Json::array();
  for (const ExchangedLayer& layer : exchange.layers)
    layers.push_back(
        {{"digest", layer.digest}, {"media_type", layer.media_type}, {"size", layer.size}, {"way", layer.way}});
  return {{"id", exchange.image.id},
          {"reference", exchange.reference},
          {"digest", exchange.digest},
          {"layers", std::move(layers)},
          {bytes_key, exchange.bytes}};
}

}  // namespace startrail::app
