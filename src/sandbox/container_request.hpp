// How a Support travels beside a ContainerSpec to the process that starts the container.
#pragma once

#include "base/json_fwd.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

[[nodiscard]] Json to_json(const Support& support);
[[nodiscard]] Support support_from_json(const Json& json);

}  // namespace startrail::sandbox
