// Digests remembered from the last snapshot of a folder, so that unchanged files need not be read.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.hpp"

namespace startrail::run {

// What tells that a file is still the same; ctime can't be set back by a program.
struct FileStamp {
  std::uint64_t size = 0, inode = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
[[nodiscard]] FileStamp stamp_of(const struct stat& status);

class SnapshotDigests {
 public:
  // An unreadable or damaged file is an empty memory.
  SnapshotDigests(const std::filesystem::path& snapshots, const std::filesystem::path& folder);
  [[nodiscard]] std::optional<std::string> find(const std::string& path, const FileStamp& stamp) const;
  // Kept for next time, unless the file changed so recently that another change could hide behind the same stamp.
  void remember(const std::string& path, const FileStamp& stamp, const std::string& sha256);
  // Best effort; nothing is written when nothing was learnt and nothing forgotten.
  void save() const;

 private:
  struct Entry {
    FileStamp stamp;
    std::string sha256;
  };
  void load();
  std::filesystem::path m_file;
  std::int64_t m_newest_trusted_ns = 0;
  std::unordered_map<std::string, Entry> m_before, m_now;
  bool m_changed = false;
};

}  // namespace startrail::run
