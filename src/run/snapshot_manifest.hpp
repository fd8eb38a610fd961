// A snapshot's manifest: snapshots/manifests/<id>.json, named by the SHA-256 of its text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace startrail::run {

struct Manifest {
  enum class Kind { file, executable, link };
  struct Entry {
    std::string path;  // relative, UTF-8
    Kind kind = Kind::file;
    std::string sha256;  // of a file
    std::string target;  // of a link, as it was
    Bytes size;
  };
  std::vector<Entry> entries;  // sorted by path
  std::vector<std::string> omitted;
  [[nodiscard]] Bytes size() const;
};

// Writes it unless it is there; returns its id.
[[nodiscard]] Result<std::string> write_manifest(const std::filesystem::path& snapshots, const Manifest& manifest);
// Errors: not_found, corrupt (another text than its name says, or a path that would leave the folder).
[[nodiscard]] Result<Manifest> read_manifest(const std::filesystem::path& snapshots, const std::string& id);

}  // namespace startrail::run
