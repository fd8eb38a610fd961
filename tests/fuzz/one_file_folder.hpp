// A folder with a single file of fuzzed content, for readers that take folders or paths. `file_name` may lie deeper.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace startrail::fuzz {

class OneFileFolder {
 public:
  explicit OneFileFolder(const char* file_name) {
    std::string pattern = (std::filesystem::temp_directory_path() / "startrail-fuzz.XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    m_folder = pattern;
    m_file = m_folder / file_name;
    std::filesystem::create_directories(m_file.parent_path());
  }
  ~OneFileFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(m_folder, ignored);
  }
  OneFileFolder(const OneFileFolder&) = delete;
  OneFileFolder& operator=(const OneFileFolder&) = delete;

  void fill(const std::uint8_t* data, std::size_t size) const {
    std::ofstream(m_file, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return m_folder; }
  [[nodiscard]] const std::filesystem::path& file() const { return m_file; }

 private:
  std::filesystem::path m_folder, m_file;
};

}  // namespace startrail::fuzz
