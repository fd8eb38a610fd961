// What the project probably wants run, and what its Dockerfiles build on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "project/folder.hpp"
#include "project/requirements.hpp"

namespace startrail::project {

// `python train.py` or `python main.py` when exactly one of them is there and is meant to be started.
[[nodiscard]] std::optional<Fact<std::vector<std::string>>> guessed_command(const Folder& folder);

// A Dockerfile's framework image says what no requirements file of the project may say. nullopt when there is none.
[[nodiscard]] std::optional<Fact<std::string>> framework_image(const Folder& folder);

}  // namespace startrail::project
