// Media types that registries speak of: OCI image specification 1.1, and docker's of before.
#pragma once

#include <array>
#include <string_view>

namespace startrail::image {

inline constexpr std::string_view k_oci_manifest_type = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view k_oci_index_type = "application/vnd.oci.image.index.v1+json";
inline constexpr std::string_view k_docker_manifest_type = "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr std::string_view k_docker_list_type = "application/vnd.docker.distribution.manifest.list.v2+json";

inline bool is_index_type(std::string_view type) {
  return type == k_oci_index_type || type == k_docker_list_type;
}
inline bool is_manifest_type(std::string_view type) {
  return type == k_oci_manifest_type || type == k_docker_manifest_type;
}

}  // namespace startrail::image
