// The folder's non-ignored files, content-addressed (snapshots/objects/<2>/<sha256>, zstd).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "base/units.hpp"

namespace startrail::run {

struct Snapshot {
  std::string id;  // SHA-256 of its manifest
  std::size_t files = 0;
  Bytes size;
  std::vector<std::string> omitted;  // "weights.bin (4 GiB: over the 50 MiB file cap)"
};
struct SnapshotLimits {
  Bytes per_file{50ULL << 20U};
  Bytes total{500ULL << 20U};
};
// Honours .gitignore through git when the folder is a repository, else skips .git, __pycache__, venvs, node_modules.
// What can't be read or is too large is listed in `omitted`; small files are taken first, so code comes before data.
// An unchanged folder costs a stat of each file: digests are remembered by path, size, inode, mtime and ctime.
// Safe to call from several processes at once. Errors: not_found, permission (the folder itself), no_space.
[[nodiscard]] Result<Snapshot> take_snapshot(const std::filesystem::path& folder,
                                             const std::filesystem::path& snapshots, const SnapshotLimits& limits);
// Writes the files into an empty directory, made if needed. Errors: not_found, corrupt, conflict (not empty).
[[nodiscard]] Result<void> restore_snapshot(const std::filesystem::path& snapshots, const std::string& id,
                                            const std::filesystem::path& into);
// {"files": {path: sha256}, "links": {path: target}, "omitted": […], "size": bytes}
[[nodiscard]] Result<Json> snapshot_manifest(const std::filesystem::path& snapshots, const std::string& id);

}  // namespace startrail::run
