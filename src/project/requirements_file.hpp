// pip's requirements files.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "project/declaration.hpp"
#include "project/folder.hpp"

namespace startrail::project {

// Physical lines joined at backslashes, comments gone, each with the number of its first line.
// Format: pip's documentation, "Requirements File Format".
struct JoinedLine {
  std::string text;
  int line = 0;
};
[[nodiscard]] std::vector<JoinedLine> joined_lines(std::string_view text);

// "${NAME}" from this process's environment, as pip does it; an unset one stays.
[[nodiscard]] std::string with_variables(std::string_view text);

enum class Role { packages, constraints };

// Adds what files and single lines say to one declaration. -r and -c are followed; a file counts once.
class RequirementsFileReader {
 public:
  RequirementsFileReader(const Folder& folder, Declaration& declaration)
      : m_folder(folder), m_declaration(declaration) {}

  [[nodiscard]] Result<void> add_file(const std::string& file, Role role);
  // One line without comment. `directory` is where relative -r, -c and --find-links start from.
  [[nodiscard]] Result<void> add_line(std::string_view line, const Origin& origin, const std::string& directory,
                                      Role role);

 private:
  [[nodiscard]] Result<void> add_option(const std::vector<std::string>& words, const Origin& origin,
                                        const std::string& directory);
  [[nodiscard]] Result<void> add_requirement(std::string_view line, const Origin& origin, Role role);
  [[nodiscard]] Result<void> add_included(const std::string& file, const Origin& origin, const std::string& directory,
                                          Role role);

  const Folder& m_folder;
  Declaration& m_declaration;
  std::set<std::string> m_seen;
};

// Looks a path requirement up: an own folder without a build file, a path of another machine and a missing
// path each get their answer. True when the requirement stays.
[[nodiscard]] Result<bool> check_path(const Folder& folder, Declaration& declaration, Requirement& requirement);

}  // namespace startrail::project
