// The last resort: what the code imports.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "project/declaration.hpp"
#include "project/import_names.hpp"
#include "project/python_imports.hpp"

namespace startrail::project {

// A project's Python files, found once.
class SourceTree {
 public:
  // Skips hidden folders, virtual environments, build output, links to folders, and files over 2 MB.
  [[nodiscard]] static SourceTree scan(const Folder& folder);

  [[nodiscard]] bool has_python() const { return !m_files.empty() || !m_tests.empty(); }

  struct FoundImport {
    std::string module;
    Origin origin;
    Need need = Need::required;
  };
  // Imports of modules that are not the project's own, one per module, required ones first where both occur.
  [[nodiscard]] std::vector<FoundImport> foreign_imports(Declaration& declaration) const;
  // Does any folder of the tree hold a module or package of this name?
  [[nodiscard]] bool has_module(const std::string& name) const;

 private:
  [[nodiscard]] bool is_local(const std::string& top_level, const std::string& importing_directory) const;

  const Folder* m_folder = nullptr;
  std::vector<std::string> m_files, m_tests, m_too_large;
  std::map<std::string, std::vector<std::string>> m_modules;  // name → folders that hold it
};

// Packages from the imports of `tree`. Modules that nothing is known about stand for packages of their own name, with a
// note.
[[nodiscard]] Declaration read_imports(const SourceTree& tree, const ImportNames& names);

}  // namespace startrail::project
