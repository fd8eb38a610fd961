// A throwaway project folder for the tests of this module.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "project/requirements.hpp"

namespace startrail::project {

class ProjectFolder : public testing::Test {
 protected:
  ProjectFolder() : m_root(base::make_temporary_directory(testing::TempDir(), "project test").value()) {}
  ~ProjectFolder() override { (void)base::remove_tree(m_root); }

  void write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((m_root / name).parent_path());
    std::ofstream(m_root / name, std::ios::binary) << text;
  }

  [[nodiscard]] const std::filesystem::path& root() const { return m_root; }
  [[nodiscard]] Result<Requirements> read_folder() const { return read(m_root, m_options); }

  // The requirements as text; the test fails when the folder can't be read.
  [[nodiscard]] Requirements needs() const {
    auto result = read_folder();
    if (result) return std::move(*result);
    ADD_FAILURE() << base::to_text(result.error());
    return {};
  }
  [[nodiscard]] Error refusal() const {
    auto result = read_folder();
    if (!result) return std::move(result).error();
    ADD_FAILURE() << "the folder was read";
    return {};
  }

  ReadOptions m_options;

 private:
  std::filesystem::path m_root;
};

// "line: PEP 508 text" of each package.
inline std::vector<std::string> lines(const std::vector<Requirement>& requirements) {
  std::vector<std::string> result;
  for (const Requirement& requirement : requirements)
    result.push_back(std::to_string(requirement.origin.line) + ": " + to_pep508(requirement));
  return result;
}

inline std::vector<std::string> note_texts(const Requirements& needs) {
  std::vector<std::string> result;
  for (const auto& note : needs.notes) result.push_back(to_text(note.origin) + ": " + note.value);
  return result;
}

}  // namespace startrail::project
