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

  // By name and not empty: a power cut may leave a name whose bytes never came to the disk.
  [[nodiscard]] bool contains(const std::string& sha256) const;
  // Whether it changed so recently that its bytes may not be on the disk yet; then waits until they are.
  void make_durable(const std::string& sha256) const;

  struct Added {
    std::string sha256;
    Bytes size;
  };
  // Reads the open `fd` and keeps its content; what is there already isn't written again. A file that grows meanwhile
  // is cut at `limit`: digest and content agree in any case. `name` is for errors.
  // Errors: invalid_input (not a regular file), those of reading; no_space. Any number of processes and threads at
  // once.
  [[nodiscard]] Result<Added> add(int fd, const std::filesystem::path& name, Bytes limit) const;

  // Errors: not_found (no such object), corrupt (its content has another digest; `into` is removed again, and so is the
  // object, so that the next snapshot of the same content brings it back), no_space.
  [[nodiscard]] Result<void> extract(const std::string& sha256, const std::filesystem::path& into, mode_t mode) const;

 private:
  [[nodiscard]] std::filesystem::path place_of(const std::string& sha256) const;
  std::filesystem::path m_root;
};

}  // namespace startrail::run
