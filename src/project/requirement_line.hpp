// One requirement as people write it: PEP 508, or one of pip's older forms.
#pragma once

#include <string_view>

#include "base/error.hpp"
#include "project/requirements.hpp"

namespace startrail::project {

// "torch[extra]>=2.0 ; marker", "name @ URL", "git+https://…@rev#egg=…&subdirectory=…", "https://….whl",
// "./folder[extra]", "-e FOLDER_OR_VCS". Comments and pip's per-line options must be gone already.
// Purely textual: paths are not looked up.
// Errors: invalid_input, naming `origin`, the rule that the text breaks and the way out;
// unsupported for version control systems other than git.
[[nodiscard]] Result<Requirement> parse_requirement(std::string_view text, const Origin& origin);

// The distribution's name and version in a wheel's file name; empty name when it is not one.
struct WheelName {
  std::string name, version;
};
[[nodiscard]] WheelName wheel_name(std::string_view file_name);

}  // namespace startrail::project
