// The one line that the user's ~/.ssh/config gets.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::instance {

// `text` with `Include "<included>"` as its first line; as it is when that line is there already, before the first Host
// or Match: below one it would hold for those hosts only.
[[nodiscard]] std::string with_include(std::string_view text, const std::filesystem::path& included);

// `text` has a Host line with exactly this name: a host of the user's own, which an instance would hide.
[[nodiscard]] bool names_host(std::string_view text, std::string_view name);

// The file that this user's ssh reads: STARTRAIL_SSH_CONFIG, else .ssh/config in the home folder of the account, which
// is where ssh looks, whatever HOME says.
[[nodiscard]] std::filesystem::path user_configuration_file();

enum class Included { already, now };
// Puts the line into `file`, which is made (0600, its folder 0700) when it is missing; every other byte and the mode
// stay, and a link is followed. Errors: permission, no_space, invalid_input (a file over 1 MiB).
[[nodiscard]] Result<Included> include_in(const std::filesystem::path& file, const std::filesystem::path& included);

}  // namespace startrail::instance
