// How a Support, and the Place of a mount, travel beside a ContainerSpec to the process that starts the container.
#pragma once

#include "base/json_fwd.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

[[nodiscard]] Json to_json(const Support& support);
[[nodiscard]] Support support_from_json(const Json& json);
// Null where nothing was recorded.
[[nodiscard]] Json to_json(const std::optional<Place>& place);
[[nodiscard]] std::optional<Place> place_from_json(const Json& json);

}  // namespace startrail::sandbox
