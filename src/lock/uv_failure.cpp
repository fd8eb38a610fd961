#include "lock/uv_failure.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/http.hpp"
#include "project/requirements.hpp"
#include "project/text_scan.hpp"

namespace startrail::lock {
namespace {

using project::trimmed;

constexpr std::size_t k_longest_reason = 300;

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// Runs of white space become one space, "{python_full_version < '3.14'}" and "(1)" go, so that a sentence that uv
// wrapped over lines can be searched.
std::string flattened(std::string_view text) {
  std::string flat;
  int braces = 0;
  for (const char c : text) {
    if (c == '{') ++braces;
    if (braces == 0) {
      if (!is_space(c)) {
        flat += c;
      } else if (!flat.empty() && flat.back() != ' ') {
        flat += ' ';
      }
    }
    if (c == '}' && braces > 0) --braces;
  }
  return flat;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The text between `before` and `after`; nullopt when one of them is missing.
std::optional<std::string> between(std::string_view text, std::string_view before, std::string_view after) {
  const auto start = text.find(before);
  if (start == std::string_view::npos) return std::nullopt;
  const auto from = start + before.size();
  const auto end = text.find(after, from);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(text.substr(from, end - from));
}

std::string without_trailing(std::string text, std::string_view characters) {
  while (!text.empty() && characters.find(text.back()) != std::string_view::npos) text.pop_back();
  return text;
}

std::string word_before(std::string_view text, std::size_t end) {
  auto start = end;
  while (start > 0 && !is_space(text[start - 1])) --start;
  return without_trailing(std::string(text.substr(start, end - start)), ",.:");
}

std::string word_at(std::string_view text, std::size_t start) {
  auto end = start;
  while (end < text.size() && !is_space(text[end])) ++end;
  return without_trailing(std::string(text.substr(start, end - start)), ",.:");
}

// "opencv-python==4.2.0.32" → name and version; a range gives no version.
void take_package(UvFailure& failure, std::string_view requirement) {
  failure.package = project_of(requirement);
  const auto pin = requirement.find("==");
  const bool one_version =
      pin != std::string_view::npos && requirement.find_first_of(",*", pin) == std::string_view::npos;
  if (one_version) failure.version = std::string(requirement.substr(pin + 2));
}

// "Because X has no usable wheels": X is the word before; "all versions of X", "all of: X<2 X>3" end in one too.
bool take_subject(UvFailure& failure, std::string_view flat, std::string_view predicate) {
  const auto at = flat.find(predicate);
  if (at == std::string_view::npos) return false;
  take_package(failure, word_before(flat, at));
  return !failure.package.empty();
}

void add_unique(std::vector<std::string>& list, std::string item) {
  if (!item.empty() && std::ranges::find(list, item) == list.end()) list.push_back(std::move(item));
}

std::vector<std::string> packages_to_build(std::string_view flat) {
  std::vector<std::string> packages;
  for (std::size_t at = 0; (at = flat.find("Wheels are required for `", at)) != std::string_view::npos; ++at)
    add_unique(packages, project_of(between(flat.substr(at), "`", "`").value_or("")));
  return packages;
}

std::vector<Dependency> dependencies_of(std::string_view flat) {
  std::vector<Dependency> found;
  for (const std::string_view verb : {" depends on ", " depend on "}) {
    for (std::size_t at = 0; (at = flat.find(verb, at)) != std::string_view::npos; at += verb.size()) {
      Dependency dependency{.dependent = word_before(flat, at), .needed = word_at(flat, at + verb.size())};
      if (!project_of(dependency.dependent).empty() && !project_of(dependency.needed).empty())
        found.push_back(std::move(dependency));
    }
  }
  return found;
}

// "you require A", "you require A and B".
std::vector<std::string> requirements_of(std::string_view flat) {
  constexpr std::string_view k_phrase = "you require ";
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = flat.find(k_phrase, at)) != std::string_view::npos;) {
    at += k_phrase.size();
    // "we can conclude that you require …" is uv's deduction, not the user's wish.
    const bool deduced = flat.substr(0, at - k_phrase.size()).ends_with("conclude that ");
    for (std::string word = word_at(flat, at); !deduced && !project_of(word).empty(); word = word_at(flat, at)) {
      add_unique(found, word);
      const auto next = flat.find(' ', at);
      if (next == std::string_view::npos || !flat.substr(next).starts_with(" and ")) break;
      at = next + std::string_view(" and ").size();
      if (flat.substr(at).starts_with("you ")) break;
    }
  }
  return found;
}

// The backend's last words: its exception, not the frames above it, nor uv's advice below.
enum class Marked { yes, no };  // whether uv says where the backend's words begin
std::string last_words(const std::vector<std::string>& lines, Marked marked) {
  std::string last;
  bool inside = marked == Marked::no;
  for (const auto& line : lines) {
    const std::string content(trimmed(line));
    if (content == "[stderr]" || content == "[stdout]") {
      inside = true;
      continue;
    }
    if (content.starts_with("hint:")) inside = false;
    const bool frame = content.starts_with("File \"") || content.starts_with("Traceback") || content.starts_with("^") ||
                       content.starts_with("***");
    if (inside && !content.empty() && !frame) last = content;
  }
  return last.substr(0, k_longest_reason);
}

std::string first_cause(const std::vector<std::string>& lines) {
  for (const auto& line : lines) {
    std::string content(trimmed(line));
    for (const std::string_view prefix : {"cause: ", "error: ", "× ", "╰─▶ ", "Caused by: "})
      if (content.starts_with(prefix)) content = std::string(trimmed(std::string_view(content).substr(prefix.size())));
    if (content.empty() || content.starts_with("No solution found") || content.starts_with("warning:")) continue;
    return content.substr(0, k_longest_reason);
  }
  return "uv said nothing";
}

bool is_git_failure(std::string_view text) {
  return contains(text, "Git operation failed") || contains(text, "git fetch") || contains(text, "failed to clone");
}

UvFailure git_failure(std::string_view text, const std::vector<std::string>& lines) {
  UvFailure failure{.kind = FailureKind::git};
  for (const auto& line : lines) {
    const std::string content(trimmed(line));
    if (content.starts_with("fatal:")) failure.reason = trimmed(std::string_view(content).substr(6));
  }
  if (failure.reason.empty()) failure.reason = first_cause(lines);
  failure.address = between(text, "unable to access '", "'").value_or("");
  if (failure.address.empty()) {
    const auto scheme = text.find("https://");
    if (scheme != std::string_view::npos) failure.address = without_trailing(word_at(text, scheme), "`'/");
  }
  failure.address = without_trailing(base::without_credentials(failure.address), "/");
  failure.host = base::host_of(failure.address);
  if (const auto subject = between(text, "build `", "`")) failure.package = project_of(*subject);
  return failure;
}

bool is_network_failure(std::string_view text) {
  return contains(text, "Failed to fetch") || contains(text, "error sending request") ||
         contains(text, "Could not connect") || contains(text, "dns error") || contains(text, "Request failed after");
}

UvFailure network_failure(std::string_view text, const std::vector<std::string>& lines) {
  UvFailure failure{.kind = FailureKind::network};
  const auto at = text.find("Failed to fetch: ");
  const auto scheme = text.find("://", at == std::string_view::npos ? 0 : at);
  if (scheme != std::string_view::npos) {
    const std::string word = word_before(text, text.find_first_of(" \n`)", scheme));
    failure.address = base::without_credentials(without_trailing(word.substr(word.find_first_not_of("`(")), "`)"));
    failure.host = base::host_of(failure.address);
  }
  for (const auto& line : lines)
    if (const std::string_view content = trimmed(line); content.starts_with("cause: "))
      failure.reason = content.substr(7);
  if (const auto subject = between(text, "build `", "`")) failure.package = project_of(*subject);
  return failure;
}

// The compiler's first complaint says more than the backend's last ("command gcc failed with exit code 1").
void prefer_compiler_words(UvFailure& failure, const std::vector<std::string>& lines) {
  constexpr std::string_view k_fatal = "fatal error: ";
  for (const auto& line : lines) {
    const auto at = line.find(k_fatal);
    if (at == std::string::npos) continue;
    failure.reason = trimmed(std::string_view(line).substr(at + k_fatal.size())).substr(0, k_longest_reason);
    if (const auto end = failure.reason.find(": No such file"); end != std::string::npos)
      failure.missing_header = failure.reason.substr(0, end);
    return;
  }
}

// "No module named 'x.y'", or the advice of setup.py files that look for it themselves: "pip install x".
std::string missing_module(std::string_view text, std::string_view reason) {
  std::string module = between(text, "No module named '", "'").value_or("");
  constexpr std::string_view k_advice = "pip install ";
  if (const auto at = reason.find(k_advice); module.empty() && at != std::string_view::npos)
    module = without_trailing(word_at(reason, at + k_advice.size()), "\"'`.");
  return module.substr(0, module.find('.'));
}

UvFailure build_failure(std::string_view text, std::string_view flat, const std::vector<std::string>& lines) {
  UvFailure failure{.kind = FailureKind::build_failed};
  for (const std::string_view before : {"Failed to download and build `", "Failed to build `", "Failed to build: `"})
    if (const auto subject = between(flat, before, "`"); subject && failure.package.empty())
      take_package(failure, *subject);
  failure.reason = last_words(lines, Marked::yes);
  if (failure.reason.empty()) failure.reason = first_cause(lines);
  failure.missing_module = missing_module(text, failure.reason);
  prefer_compiler_words(failure, lines);
  return failure;
}

UvFailure unsolvable(std::string_view flat) {
  UvFailure failure;
  failure.unbuilt = packages_to_build(flat);
  failure.dependencies = dependencies_of(flat);
  failure.required = requirements_of(flat);
  failure.tags = between(flat, "tags: ", " hint:").value_or("");
  if (failure.tags.empty()) failure.tags = between(flat, "tag: ", " hint:").value_or("");
  if (failure.tags.empty() && contains(flat, "tags: ")) failure.tags = trimmed(flat.substr(flat.rfind("tags: ") + 6));
  std::erase(failure.tags, '`');
  const bool plain = failure.dependencies.empty();
  if (take_subject(failure, flat, " was not found in the package registry") ||
      take_subject(failure, flat, " was not found in the provided package locations")) {
    failure.kind = FailureKind::unknown_package;
  } else if (plain && contains(flat, "there is no version of ")) {
    failure.kind = FailureKind::unknown_version;
    take_package(failure, word_at(flat, flat.find("there is no version of ") + 23));
  } else if (plain && !failure.unbuilt.empty()) {
    failure.kind = FailureKind::needs_build;
    if (!take_subject(failure, flat, " has no usable wheels")) failure.package = failure.unbuilt.front();
  } else if (plain && (take_subject(failure, flat, " has no wheels with a matching") ||
                       take_subject(failure, flat, " have no wheels with a matching"))) {
    failure.kind = FailureKind::no_wheels;
  } else if (plain && contains(flat, "are available and you require")) {
    failure.kind = FailureKind::unknown_version;
    take_subject(failure, flat, " are available and you require");
  } else if (plain && contains(flat, "is available and you require")) {
    failure.kind = FailureKind::unknown_version;
    take_subject(failure, flat, " is available and you require");
  } else if (contains(flat, "does not satisfy Python") && failure.required.size() <= 1) {
    failure.kind = FailureKind::python_version;
    if (!failure.required.empty()) take_package(failure, failure.required.front());
  } else {
    failure.kind = FailureKind::contradiction;
  }
  return failure;
}

}  // namespace

std::string project_of(std::string_view requirement) {
  auto end = requirement.find_first_of("[{<>=!~; @(");
  end = std::min(end, requirement.size());
  const auto name = requirement.substr(0, end);
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  if (name.empty() || name == "Python" || std::isalnum(static_cast<unsigned char>(name.front())) == 0) return "";
  return std::ranges::all_of(name, fits) ? project::normalized_name(name) : "";
}

UvFailure parse_build_output(std::string_view output, const std::string& package) {
  const auto lines = lines_of(output);
  UvFailure failure{.kind = FailureKind::build_failed, .package = package};
  failure.reason = last_words(lines, Marked::no);
  if (failure.reason.empty()) failure.reason = "it said nothing";
  failure.missing_module = missing_module(output, failure.reason);
  prefer_compiler_words(failure, lines);
  return failure;
}

UvFailure parse_uv_failure(std::string_view errors) {
  const auto lines = lines_of(errors);
  const std::string flat = flattened(errors);
  if (contains(flat, "No interpreter found") || contains(flat, "No Python interpreter") ||
      contains(flat, "Git executable not found"))
    return {.kind = FailureKind::missing_tool, .reason = first_cause(lines)};
  if (is_git_failure(flat)) return git_failure(errors, lines);
  if (contains(flat, "Building source distributions") && contains(flat, "disabled")) {
    UvFailure failure{.kind = FailureKind::needs_build, .reason = first_cause(lines)};
    for (const std::string_view before : {"build `", "distributions for `"})
      if (const auto subject = between(flat, before, "`"); subject && failure.package.empty())
        take_package(failure, *subject);
    add_unique(failure.unbuilt, failure.package);
    return failure;
  }
  if (contains(flat, "No solution found") || contains(flat, "requirements are unsatisfiable")) {
    UvFailure failure = unsolvable(flat);
    failure.reason = first_cause(lines);
    return failure;
  }
  if (is_network_failure(flat)) return network_failure(errors, lines);
  if (contains(flat, "build backend returned an error") || contains(flat, "Failed to build") ||
      contains(flat, "Failed to download and build"))
    return build_failure(errors, flat, lines);
  return {.kind = FailureKind::other, .reason = first_cause(lines)};
}

}  // namespace startrail::lock
