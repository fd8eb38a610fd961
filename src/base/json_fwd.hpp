#pragma once

#include <nlohmann/json_fwd.hpp>

namespace startrail::base {
using Json = nlohmann::ordered_json;
}
namespace startrail {
using base::Json;
}
