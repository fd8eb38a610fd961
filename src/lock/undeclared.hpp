// Requirements that releases have and don't declare: uv is told them as if they had.
#pragma once

#include <string>

namespace startrail::lock {

// [[dependency-metadata]] tables for uv.toml. Only the releases that they name are meant; a project's own pins hold, as
// for what is declared.
[[nodiscard]] std::string undeclared_settings();

}  // namespace startrail::lock
