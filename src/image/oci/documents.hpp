// The JSON documents of the OCI image specification, and Docker's of the same shape: read with suspicion, written the
// same way every time.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "image/exchange.hpp"

namespace startrail::image {

inline constexpr std::string_view k_manifest_type = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view k_index_type = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view k_config_type = "application/vnd.oci.image.config.v1+json";
inline constexpr std::string_view k_ref_name = "org.opencontainers.image.ref.name";
inline constexpr std::string_view k_layer_title = "org.startrail.layer";  // of a layer: what it holds, for people

// By which an image of ours is known again. What it says of layers tells an image that others built upon ours, whose
// config still has the labels, from ours itself.
inline constexpr std::string_view k_label_manifest = "org.startrail.image.manifest";
inline constexpr std::string_view k_label_details = "org.startrail.image.details";
inline constexpr std::string_view k_label_layers = "org.startrail.image.layers";
[[nodiscard]] std::string layers_digest(const std::vector<std::string>& diff_ids);

struct OciManifest {
  Descriptor config;
  std::vector<Descriptor> layers;
};
struct OciConfig {
  std::string architecture, os;
  std::vector<std::string> diff_ids;
  base::Environment environment;
  std::string working_directory;
  std::map<std::string, std::string> labels;
  Json whole;
};

// "amd64", as Go and so OCI call what this program runs on.
[[nodiscard]] std::string_view own_architecture();
[[nodiscard]] bool is_digest(std::string_view text);  // "sha256:" and 64 hex digits
[[nodiscard]] Descriptor descriptor_of(std::string_view media_type, std::string_view text);
[[nodiscard]] Json to_json(const Descriptor& descriptor);
// Errors: corrupt.
[[nodiscard]] Result<Descriptor> descriptor_from(const Json& json);

[[nodiscard]] bool is_index(const ManifestText& manifest);
// Of an index: the image for this machine. Errors: unsupported (it names those that there are), corrupt.
[[nodiscard]] Result<Descriptor> own_platform(const ManifestText& index, std::string_view name);
// Errors: corrupt, unsupported (something else than an image, or layers that are kept elsewhere).
[[nodiscard]] Result<OciManifest> parse_image_manifest(const ManifestText& manifest, std::string_view name);
[[nodiscard]] Result<OciConfig> parse_config(std::string_view text, std::string_view name);
[[nodiscard]] ManifestText manifest_of(const Descriptor& config, const std::vector<Descriptor>& layers,
                                       const std::map<std::string, std::string>& annotations);

}  // namespace startrail::image
