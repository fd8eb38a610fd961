// A user's own folders above another owner's tree.
//
// What is made in a folder goes into the uppermost of those that merge there, and an ordinary user's container may not
// copy up a folder of root's (overlayfs: its owner has no number in the user namespace). A skeleton on top of root's
// files makes each folder in it the user's, so that a `pip install` inside can add to it and remove from it.
#pragma once

#include <filesystem>

#include "base/error.hpp"

namespace startrail::image {

// In `skeleton`, which is there: of the base's root the folders of the first levels (/etc, /usr/local and the like),
// and of the image's tree every folder, with one for bytecode beside each module. Errors: no_space, permission.
[[nodiscard]] Result<void> make_skeleton(const std::filesystem::path& base_root, const std::filesystem::path& tree,
                                         const std::filesystem::path& skeleton);

}  // namespace startrail::image
