// trail.toml, the project's own file for this program.
#pragma once

#include <optional>

#include "base/error.hpp"
#include "project/declaration.hpp"

namespace startrail::project {

struct TrailFile {
  Declaration environment;  // packages, python, system packages; its source is the [environment] table alone
  Settings settings;
  std::optional<Fact<std::vector<std::string>>> command;
};

// nullopt when the folder has none. Unknown keys are errors that name the likely one. Errors: corrupt, invalid_input.
[[nodiscard]] Result<std::optional<TrailFile>> read_trail_toml(const Folder& folder);

// The words of a command line; one that needs a shell (pipes, `&&`, variables) becomes `sh -c`.
[[nodiscard]] Result<std::vector<std::string>> command_words(std::string_view line);

}  // namespace startrail::project
