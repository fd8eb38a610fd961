// The one door to a project's files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.hpp"
#include "base/error.hpp"

namespace startrail::project {

struct TextFile {
  std::string file;    // relative to the project folder
  std::string text;    // UTF-8, lines ended by '\n' only
  std::string sha256;  // of the bytes as they are on disk
};

struct TableFile {  // TOML or YAML
  std::string file;
  std::string sha256;
  base::Document document;
};

class Folder {
 public:
  // Errors: not_found, permission, invalid_input (a file).
  [[nodiscard]] static Result<Folder> open(const std::filesystem::path& root);

  [[nodiscard]] const std::filesystem::path& root() const { return m_root; }
  // Names directly in the folder, sorted; hidden ones too.
  [[nodiscard]] const std::vector<std::string>& names() const { return m_names; }
  // Sorted names of a folder below; empty when it can't be listed.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& directory) const;
  // A regular file, or a link to one. A name that exists but can't be looked at counts, so that
  // reading it tells why.
  [[nodiscard]] bool has_file(const std::string& file) const;
  [[nodiscard]] bool has_directory(const std::string& directory) const;

  // `file` is relative to the folder or absolute. Only regular files of at most 16 MiB are read.
  // Errors: not_found, permission, invalid_input (too large, not a file, not text).
  [[nodiscard]] Result<TextFile> read_text(const std::string& file) const;
  [[nodiscard]] Result<TableFile> read_toml(const std::string& file) const;
  [[nodiscard]] Result<TableFile> read_yaml(const std::string& file) const;
  // How messages call a path: relative to the folder.
  [[nodiscard]] std::string shown(const std::string& file) const;

 private:
  std::filesystem::path m_root;
  std::vector<std::string> m_names;
};

// UTF-8 from bytes that may be UTF-8, UTF-16 with a byte order mark, or else Latin-1; CRLF and CR become '\n'.
// Errors: invalid_input for binary content (NUL bytes).
[[nodiscard]] Result<std::string> decode_text(std::string_view bytes);

}  // namespace startrail::project
