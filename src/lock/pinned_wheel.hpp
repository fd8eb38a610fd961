// Tools that arrive as wheels: fetched once from the configured index, pinned by hash, a few entries kept.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/reporter.hpp"

namespace startrail::lock {

struct PinnedWheel {
  std::string project;  // "uv"
  std::string version;
  std::string sha256;  // of the one wheel that is taken
  struct Entry {
    std::string name;  // inside the wheel
    std::string file;  // in the tool's folder
    unsigned mode = 0644;
  };
  std::vector<Entry> entries;
};

// The folder <state_root>/tools/<project>-<version> with the entries in it. A folder that is there is returned as it
// is; else one caller fetches and unpacks into a staging folder, which is renamed into place.
// Errors: network, not_found (the index lacks the wheel), hash_mismatch, corrupt, no_space, permission.
[[nodiscard]] Result<std::filesystem::path> ensure_pinned_wheel(const PinnedWheel& wheel,
                                                                const std::filesystem::path& state_root,
                                                                Reporter& reporter);

}  // namespace startrail::lock
