// A line of the listing that a tree's digest is made of: type, mode, path, and a file's SHA-256 or a link's target.
#pragma once

#include <string>

#include <sys/types.h>

#include "base/error.hpp"

namespace startrail::image {

struct ListedEntry {
  enum class Type { folder, file, symlink } type = Type::file;
  mode_t mode = 0;  // a link's own is the filesystem's business
  const std::string& path;
  const std::string& content;
};

// No two entries, nor several lines of them, give the same text. Errors: unsafe_path (a control character in a name).
[[nodiscard]] Result<std::string> listing_line(const ListedEntry& entry);

[[nodiscard]] bool has_control_character(const std::string& name);
[[nodiscard]] bool is_utf8(const std::string& name);
// For messages: what is no plain letter as %XX.
[[nodiscard]] std::string percent_escaped(const std::string& name);

}  // namespace startrail::image
