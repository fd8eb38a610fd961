// The project's own code: the package that it is, or the folder that its packages lie in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "project/folder.hpp"
#include "project/requirements.hpp"

namespace startrail::project {

// The name under which pyproject.toml makes a package of the project: by uv's rule, one with a build system, unless
// [tool.uv] `package` says otherwise; Poetry's `package-mode = false` says otherwise too.
[[nodiscard]] std::optional<Fact<std::string>> own_package(const Folder& folder);

// "src" or "." where packages of the project's own lie there; nothing for a folder of scripts.
[[nodiscard]] std::vector<std::string> import_roots(const Folder& folder);

}  // namespace startrail::project
