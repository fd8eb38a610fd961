// The part of a source build that runs inside the sandbox.
#pragma once

#include <string_view>

namespace startrail::lock {

// Python ≥ 3.9 source. Its one argument is a JSON file: source (an archive or a folder), subdirectory, hook
// ("build_wheel" or "build_editable"), output, uv, requirements and constraints (lists of lines), and, for sources that
// are compiled against torch, image: its site-packages and the packages that it has. Then the wheel's Requires-Dist
// lines are left in requires.txt beside it, and what the build prints is on stderr. Leaves one wheel in `output`; on
// failure the backend's words are on stderr and the exit code is 1.
extern const std::string_view k_source_wheel_script;

}  // namespace startrail::lock
