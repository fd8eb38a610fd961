// Where each entry of a wheel goes in its tree.
// Format: PyPA "Binary distribution format": one .dist-info folder, the .data schemes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "image/zip_directory.hpp"

namespace startrail::image {

struct Placement {
  std::string target;  // path in the tree; "" for an entry that is checked but not installed
  bool executable = false;
  bool is_script = false;  // of the scripts scheme: "#!python" is rewritten
};

// The wheel's own RECORD lies here until it has been compared with what was unpacked.
inline constexpr const char* k_wheel_record = "RECORD";

struct WheelLayout {
  std::string dist_info;              // "torch-2.6.0.dist-info"
  std::string name, version;          // as its folder says
  std::vector<Placement> placements;  // one per entry
};

// Errors: corrupt (no or several .dist-info folders, an unknown scheme, two entries for one target),
// unsafe_path (a target that belongs to the environment itself: bin/python*, pyvenv.cfg).
[[nodiscard]] Result<WheelLayout> wheel_layout(const std::vector<ZipEntry>& entries);

// Commands and data may not take the place of the environment's own files. `path` is relative to /opt/env.
[[nodiscard]] Result<void> check_environment_path(std::string_view path);

}  // namespace startrail::image
