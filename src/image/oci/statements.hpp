// What is said about an image beside it: a bill of materials (CycloneDX 1.5) and where it comes from (in-toto
// statement, SLSA provenance 1). Both depend on the image alone.
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/json.hpp"
#include "image/exchange.hpp"
#include "image/image_folder.hpp"

namespace startrail::image {

inline constexpr std::string_view k_sbom_type = "application/vnd.cyclonedx+json";
inline constexpr std::string_view k_provenance_type = "application/vnd.in-toto+json";

// A component for each wheel, and for each Debian package of the base.
[[nodiscard]] Json bill_of_materials(const Store& store, const std::string& id, const Manifest& manifest,
                                     const Json& details);
// `subject` is the exported image's manifest.
[[nodiscard]] Json provenance(const std::string& id, const Manifest& manifest, const Json& details,
                              const std::string& name, const Descriptor& subject);

// A statement as a manifest that refers to `subject`: its blob, the manifest, and what a list of referrers says of it.
struct Statement {
  Descriptor blob, own;
  std::string text;
  ManifestText manifest;
};
[[nodiscard]] Statement statement_about(const Descriptor& subject, std::string_view type, const Json& content);
// The empty blob that a manifest without a config names (OCI image specification, "Guidance for an Empty Descriptor").
[[nodiscard]] Descriptor empty_blob();
inline constexpr std::string_view k_empty_text = "{}";

}  // namespace startrail::image
