#include "project/declaration.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {

bool take_interpreter(Declaration& declaration, const Requirement& requirement) {
  if (requirement.kind != SourceKind::index) return false;
  if (requirement.name == "pip") {
    if (!requirement.specifier.empty())
      declaration.note(requirement.origin,
                       fmt::format("{} pins the installer, not the code: left out", requirement.as_written));
    return true;
  }
  if (requirement.name != "python" && requirement.name != "requires-python") return false;
  const auto specifier = python_specifier(requirement.specifier);
  if (specifier && !specifier->empty()) {
    declaration.python = Fact<std::string>{.value = *specifier, .origin = requirement.origin};
    declaration.note(requirement.origin, fmt::format("{} is taken as the Python version", requirement.as_written));
  }
  return true;
}

Result<std::string> python_specifier(std::string_view text) {
  text = trimmed(text);
  if (text == "*") return std::string();
  std::string result;
  for (const std::string_view part : split(text, ',')) {
    std::string clause(trimmed(part));
    if (clause.empty()) continue;
    if (is_digit(clause.front())) clause.insert(0, "==");
    if (clause.starts_with("==")) {
      std::string_view exact = trimmed(std::string_view(clause).substr(clause.starts_with("===") ? 3 : 2));
      if (exact.ends_with(".*")) exact.remove_suffix(2);
      if (const auto version = Version::parse(exact)) {
        const auto& release = version->release();
        clause =
            release.size() > 1 ? fmt::format("=={}.{}.*", release[0], release[1]) : fmt::format("=={}.*", release[0]);
      }
    }
    result += (result.empty() ? "" : ",") + clause;
  }
  return TRY(SpecifierSet::parse(result)).text();
}

Result<FirstOfKind> first_that_declares(const std::vector<std::string>& names,
                                        const std::function<Result<Declaration>(const std::string&)>& read) {
  FirstOfKind found;
  for (const std::string& name : names) {
    if (found.taken) {
      found.others.push_back(name);
      continue;
    }
    Declaration declaration = TRY(read(name));
    if (declaration.declares_packages()) found.taken = std::move(declaration);
  }
  return found;
}

std::string enumerated(const std::vector<std::string>& names, std::size_t limit) {
  if (names.size() <= limit + 1) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
      text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
    return text;
  }
  const std::vector<std::string> shown(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(limit));
  return fmt::format("{} and {} more", fmt::join(shown, ", "), names.size() - limit);
}

}  // namespace startrail::project
