// Commands that a wheel announces in entry_points.txt, and the scripts that start them.
// Format: PyPA "Entry points specification" (an INI file), console_scripts and gui_scripts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace startrail::image {

struct EntryPoint {
  std::string group;   // "console_scripts"
  std::string name;    // of the command
  std::string module;  // "package.cli"
  std::string object;  // "main" or "Class.method"
};

// Only the two script groups are returned and checked; other groups' lines are whatever their plugins read.
// Errors: corrupt (no INI, a reference that isn't "module:object"), unsafe_path (a name that isn't a plain file name).
[[nodiscard]] Result<std::vector<EntryPoint>> parse_entry_points(std::string_view text);

// The Python source of the script for `entry`, started by `interpreter`.
[[nodiscard]] std::string script_text(const EntryPoint& entry, std::string_view interpreter);

}  // namespace startrail::image
