// From the name of a module to the distribution that brings it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::project {

class ImportNames {
 public:
  // The files of ReadOptions; an empty path leaves that list empty. Errors: not_found, permission.
  [[nodiscard]] static Result<ImportNames> load(const std::filesystem::path& module_map,
                                                const std::filesystem::path& standard_library_list);

  // Also modules that only Python 2 had, and names that no package has (`__main__`).
  [[nodiscard]] bool is_standard(std::string_view top_level) const;
  // "" for a module that no package of the index may stand for (`apex` there is another program);
  // nullopt when nothing is known about it.
  [[nodiscard]] std::optional<std::string> distribution(std::string_view dotted) const;

 private:
  std::map<std::string, std::string, std::less<>> m_map;
  std::set<std::string, std::less<>> m_standard;
};

}  // namespace startrail::project
