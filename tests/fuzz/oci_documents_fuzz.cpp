// Manifests, indexes and configs of images on arbitrary bytes: every digest that is accepted is one.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "image/oci/documents.hpp"

using namespace startrail::image;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ManifestText text{
      .media_type = "", .digest = "", .text = std::string(reinterpret_cast<const char*>(data), size)};
  if (is_index(text)) {
    if (const auto own = own_platform(text, "fuzz"); own && !is_digest(own->digest)) std::abort();
  }
  if (const auto manifest = parse_image_manifest(text, "fuzz")) {
    if (manifest->layers.empty()) std::abort();
    for (const Descriptor& layer : manifest->layers)
      if (!is_digest(layer.digest)) std::abort();
  }
  if (const auto config = parse_config(text.text, "fuzz")) {
    for (const std::string& diff_id : config->diff_ids)
      if (!is_digest(diff_id)) std::abort();
    for (const auto& [name, value] : config->environment)
      if (name.empty()) std::abort();
  }
  return 0;
}
