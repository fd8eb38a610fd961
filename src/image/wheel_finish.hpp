// The last step of unpacking a wheel: everything is compared with RECORD, and what an installer adds is written.
#pragma once

#include "base/error.hpp"
#include "image/unpack.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {

// The interpreter that scripts start: the environment's own.
inline constexpr const char* k_interpreter = "/opt/env/bin/python";

struct WheelIdentity {
  std::string filename, sha256;
  std::string name, version;  // as the lock says; an empty version is not compared
};

// Writes scripts, INSTALLER, RECORD and meta.json into the staging tree.
// Errors: corrupt, hash_mismatch (a file that differs from RECORD), unsafe_path, conflict; each names the file.
[[nodiscard]] Result<WheelTree> finish_wheel(const Unpacking& wheel, const WheelIdentity& identity);

}  // namespace startrail::image
