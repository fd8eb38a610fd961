// Contents of files by their digest: snapshots/objects/<first two digits>/<sha256>, zstd.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/units.hpp"

namespace startrail::run {

class SnapshotObjects {
 public:
  explicit SnapshotObjects(std::filesystem::path snapshots) : m_root(std::move(snapshots) / "objects") {}

  [[nodiscard]] bool contains(const std::string& sha256) const;

  struct Added {
    std::string sha256;
    Bytes size;
  };
  // Reads `file` (never through a symlink) and keeps its content; what is there already isn't written again.
  // A file that grows meanwhile is cut at `limit`: digest and content agree in any case.
  // Errors: those of opening and reading `file`; no_space. Any number of processes and threads at once.
  [[nodiscard]] Result<Added> add(const std::filesystem::path& file, Bytes limit) const;

  // Errors: not_found (no such object), corrupt (its content has another digest; `into` is removed again), no_space.
  [[nodiscard]] Result<void> extract(const std::string& sha256, const std::filesystem::path& into, mode_t mode) const;

 private:
  [[nodiscard]] std::filesystem::path place_of(const std::string& sha256) const;
  std::filesystem::path m_root;
};

}  // namespace startrail::run
