// A folder that goes with the test.
#pragma once

#include <filesystem>
#include <string>

#include "base/files.hpp"

namespace startrail {

class TemporaryFolder {
 public:
  TemporaryFolder() : m_path(base::make_temporary_directory(fs::temp_directory_path(), "startrail-test").value()) {}
  ~TemporaryFolder() { [[maybe_unused]] const auto removed = base::remove_tree(m_path); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return m_path; }
  fs::path operator/(const fs::path& name) const { return m_path / name; }

 private:
  fs::path m_path;
};

inline void write_test_file(const fs::path& file, std::string_view content) {
  base::make_directories(file.parent_path()).value();
  base::write_file_atomic(file, content).value();
}

}  // namespace startrail
