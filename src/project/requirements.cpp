#include "project/requirements.hpp"

#include <fmt/format.h>

#include "project/text_scan.hpp"

namespace startrail::project {

std::string to_text(const Origin& origin) {
  return origin.line > 0 ? fmt::format("{}:{}", origin.file, origin.line) : origin.file;
}

std::string normalized_name(std::string_view name) {
  std::string result;
  for (const char c : to_lower(name)) {
    if (!is_one_of(c, "-_.")) {
      result += c;
    } else if (!result.ends_with('-')) {
      result += '-';
    }
  }
  return result;
}

std::string to_pep508(const Requirement& requirement) {
  const std::string extras = requirement.extras.empty() ? "" : fmt::format("[{}]", fmt::join(requirement.extras, ","));
  std::string text;
  if (requirement.kind == SourceKind::directory) {
    // uv takes editables from local folders only; a VCS checkout is installed like any other package.
    text = (requirement.editable == Editable::yes ? "-e " : "") + requirement.location + extras;
  } else if (requirement.kind != SourceKind::index) {
    text = requirement.name.empty() ? requirement.location
                                    : fmt::format("{}{} @ {}", requirement.name, extras, requirement.location);
  } else {
    text = requirement.name + extras + requirement.specifier;
  }
  return requirement.marker.empty() ? text : text + " ; " + requirement.marker;
}

}  // namespace startrail::project
