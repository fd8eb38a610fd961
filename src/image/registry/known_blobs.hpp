// Which repositories of which registries have which blobs, as earlier pushes and pulls saw it: hints for mounting a
// blob instead of sending it. A hint that is wrong costs one request.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/registry/reference.hpp"
#include "image/store.hpp"

namespace startrail::image {

// Another repository of the same host that had this blob, the latest first.
[[nodiscard]] std::optional<std::string> repository_with(const Store& store, const Reference& except,
                                                         const std::string& digest);

// Adds what this repository has. Several processes may do so at once. Errors: permission, no_space.
[[nodiscard]] Result<void> remember_blobs(const Store& store, const Reference& reference,
                                          const std::vector<std::string>& digests);

}  // namespace startrail::image
