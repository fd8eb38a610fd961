#include "project/requirements_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/process.hpp"
#include "project/conda_spec.hpp"
#include "project/requirement_line.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

constexpr std::size_t k_most_bad_lines = 8;

enum class Meaning {
  index_url,
  extra_index_url,
  no_index,
  find_links,
  requirement,
  constraint,
  prereleases,
  told,     // noted as not followed
  ignored,  // no bearing on what is installed
};

struct Option {
  std::string_view name, short_name;
  bool takes_value;
  Meaning meaning;
};

// pip's documentation, "Supported options", and those of old pip versions that files still carry.
constexpr Option k_options[] = {
    {"--index-url", "-i", true, Meaning::index_url},
    {"--pypi-url", "", true, Meaning::index_url},
    {"--extra-index-url", "", true, Meaning::extra_index_url},
    {"--no-index", "", false, Meaning::no_index},
    {"--find-links", "-f", true, Meaning::find_links},
    {"--requirement", "-r", true, Meaning::requirement},
    {"--constraint", "-c", true, Meaning::constraint},
    {"--pre", "", false, Meaning::prereleases},
    {"--trusted-host", "", true, Meaning::told},
    {"--no-binary", "", true, Meaning::told},
    {"--only-binary", "", true, Meaning::ignored},
    {"--prefer-binary", "", false, Meaning::ignored},
    {"--require-hashes", "", false, Meaning::ignored},
    {"--use-feature", "", true, Meaning::ignored},
    {"--no-deps", "", false, Meaning::told},
    {"--process-dependency-links", "", false, Meaning::ignored},
    {"--always-unzip", "-Z", false, Meaning::ignored},
    {"--upgrade", "-U", false, Meaning::ignored},
    {"--no-cache-dir", "", false, Meaning::ignored},
};

std::string directory_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash + 1);
}

bool is_address(std::string_view text) {
  return text.find("://") != std::string_view::npos;
}

std::vector<std::string> words_of(std::string_view line) {
  if (auto words = base::shell_split(line)) return std::move(*words);
  std::vector<std::string> words;
  for (const std::string_view word : split(line, ' '))
    if (!trimmed(word).empty()) words.emplace_back(trimmed(word));
  return words;
}

// "--option=value", "--option value", "-ovalue" and "-o value".
struct OptionUse {
  const Option* option = nullptr;
  std::string value;
  std::size_t words = 1;
};
OptionUse find_option(const std::vector<std::string>& words, std::size_t at) {
  const std::string_view word = words[at];
  for (const Option& option : k_options) {
    const bool long_form =
        word.starts_with(option.name) && (word.size() == option.name.size() || word[option.name.size()] == '=');
    const bool short_form = !option.short_name.empty() && word.starts_with(option.short_name) &&
                            !word.starts_with("--") && (option.takes_value || word.size() == option.short_name.size());
    if (!long_form && !short_form) continue;
    std::string_view value = word.substr((long_form ? option.name : option.short_name).size());
    if (value.starts_with('=')) value.remove_prefix(1);
    if (!option.takes_value || !value.empty()) return {.option = &option, .value = std::string(value)};
    if (at + 1 < words.size()) return {.option = &option, .value = words[at + 1], .words = 2};
    return {.option = &option};
  }
  return {};
}

std::string unknown_option_hint(std::string_view word) {
  std::vector<std::string_view> known;
  for (const Option& option : k_options) known.push_back(option.name);
  const std::string_view likely = nearest(word.substr(0, word.find('=')), known);
  if (!likely.empty()) return fmt::format("did you mean {}?", likely);
  return "remove the option; requirements files take pip's own only";
}

// Takes " --hash=sha256:…" and pip's other per-requirement options off the end of a line.
std::string_view without_options(std::string_view line, std::vector<std::string>& hashes) {
  std::size_t at = std::string_view::npos;
  for (const std::string_view option : {" --hash", " --global-option", " --install-option", " --config-setting"})
    at = std::min(at, line.find(option));
  if (at == std::string_view::npos) return line;
  const auto words = words_of(line.substr(at));
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--hash=")) hashes.push_back(words[i].substr(7));
    if (words[i] == "--hash" && i + 1 < words.size()) hashes.push_back(words[++i]);
  }
  return trimmed(line.substr(0, at));
}

// What is saved under the name of a list now and then, and would give an error for each of its lines.
Result<void> check_is_list(const std::vector<JoinedLine>& lines, const std::string& name) {
  const auto starts = [](const JoinedLine& line, std::string_view mark) {
    return to_lower(line.text.substr(0, mark.size())) == mark;
  };
  if (!lines.empty() && (starts(lines.front(), "<!doctype") || starts(lines.front(), "<html")))
    return fail(error(ErrorCode::invalid_input, fmt::format("{} is a web page, not a list of requirements", name))
                    .with_hint("save the file itself: a repository's page links to it as \"raw\""));
  const auto conflict = std::ranges::find_if(lines, [&](const JoinedLine& line) { return starts(line, "<<<<<<< "); });
  if (conflict != lines.end())
    return fail(error(ErrorCode::invalid_input,
                      fmt::format("{}:{}: two versions of the file stand here, left by a merge", name, conflict->line))
                    .with_hint("keep one of them, and remove the lines <<<<<<<, ======= and >>>>>>>"));
  return {};
}

}  // namespace

std::vector<JoinedLine> joined_lines(std::string_view text) {
  std::vector<JoinedLine> result;
  std::string pending;
  int first = 0;
  int number = 0;
  const auto flush = [&] {
    std::size_t end = pending.size();
    for (std::size_t i = 0; i < pending.size(); ++i)
      if (pending[i] == '#' && (i == 0 || is_blank(pending[i - 1]))) {
        end = i;
        break;
      }
    const std::string_view content = trimmed(std::string_view(pending).substr(0, end));
    if (!content.empty()) result.push_back({.text = std::string(content), .line = first});
    pending.clear();
    first = 0;
  };
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const bool comment = trimmed(line).starts_with('#');
    if (comment && pending.empty()) continue;
    if (first == 0) first = number;
    if (!comment && line.ends_with('\\')) {
      pending += line.substr(0, line.size() - 1);
      continue;
    }
    pending += comment ? " " : "";
    pending += line;
    flush();
  }
  flush();
  return result;
}

std::string with_variables(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t start = text.find("${");
    const std::size_t end = start == std::string_view::npos ? start : text.find('}', start);
    if (end == std::string_view::npos) break;
    const std::string name(text.substr(start + 2, end - start - 2));
    const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) {
      return is_digit(c) || (c >= 'A' && c <= 'Z') || c == '_';
    });
    const auto value = plain ? base::environment_variable(name.c_str()) : std::nullopt;
    result += text.substr(0, start);
    result += value ? *value : std::string(text.substr(start, end - start + 1));
    text.remove_prefix(end + 1);
  }
  return result + std::string(text);
}

Result<void> RequirementsFileReader::add_file(const std::string& file, Role role) {
  const std::string name = m_folder.shown(file);
  if (!m_seen.insert(name).second) return {};
  const TextFile text = TRY(m_folder.read_text(file));
  m_declaration.sources.push_back({.file = text.file, .sha256 = text.sha256});
  const auto lines = joined_lines(text.text);
  if (std::ranges::any_of(lines, [](const JoinedLine& line) { return line.text == "@EXPLICIT"; }))
    return fail(
        error(ErrorCode::unsupported, fmt::format("{} lists conda package files, which only conda can install", name))
            .with_hint(
                "write `conda env export --from-history > environment.yml` where it was made, and remove the list"));
  if (is_conda_list(lines)) return add_conda_list(m_declaration, lines, name);
  TRY(check_is_list(lines, name));
  std::optional<Error> first;  // the user should see the bad lines at once
  std::size_t bad = 0;
  for (const JoinedLine& line : lines) {
    auto added = add_line(line.text, {.file = name, .line = line.line}, directory_of(name), role);
    if (added) continue;
    if (++bad == 1) {
      first = std::move(added).error();
    } else if (bad <= k_most_bad_lines) {
      first->with_context(fmt::format("and {}", added.error().message));
      for (const std::string& hint : added.error().hints) first->with_hint(fmt::format("line {}: {}", line.line, hint));
    }
  }
  if (bad > k_most_bad_lines) first->with_context(fmt::format("and {} more lines alike", bad - k_most_bad_lines));
  if (first) return fail(std::move(*first));
  return {};
}

Result<void> RequirementsFileReader::add_line(std::string_view line, const Origin& origin, const std::string& directory,
                                              Role role) {
  if (line.starts_with("pip install ")) line = trimmed(line.substr(12));
  const bool editable = line.starts_with("-e") || line.starts_with("--editable");
  if (line.starts_with('-') && !editable) return add_option(words_of(with_variables(line)), origin, directory);
  return add_requirement(line, origin, role);
}

Result<void> RequirementsFileReader::add_option(const std::vector<std::string>& words, const Origin& origin,
                                                const std::string& directory) {
  IndexOptions& indexes = m_declaration.indexes;
  for (std::size_t at = 0; at < words.size();) {
    const OptionUse use = find_option(words, at);
    if (use.option == nullptr)
      return fail(error(ErrorCode::invalid_input, fmt::format("{}: pip has no option `{}`", to_text(origin), words[at]))
                      .with_hint(unknown_option_hint(words[at])));
    if (use.option->takes_value && use.value.empty())
      return fail(ErrorCode::invalid_input, fmt::format("{}: {} needs a value", to_text(origin), use.option->name));
    at += use.words;
    switch (use.option->meaning) {
      case Meaning::index_url: indexes.index_url = Fact<std::string>{use.value, origin}; break;
      case Meaning::extra_index_url: indexes.extra_index_urls.push_back({use.value, origin}); break;
      case Meaning::no_index: indexes.no_index = origin; break;
      case Meaning::prereleases: indexes.prereleases = origin; break;
      case Meaning::requirement: TRY(add_included(use.value, origin, directory, Role::packages)); break;
      case Meaning::constraint: TRY(add_included(use.value, origin, directory, Role::constraints)); break;
      case Meaning::find_links: {
        const bool beside = !is_address(use.value) && m_folder.has_directory(directory + use.value);
        indexes.find_links.push_back({beside ? directory + use.value : use.value, origin});
        break;
      }
      case Meaning::told: m_declaration.note(origin, fmt::format("{} is not followed", use.option->name)); break;
      case Meaning::ignored: break;
    }
  }
  return {};
}

Result<void> RequirementsFileReader::add_included(const std::string& file, const Origin& origin,
                                                  const std::string& directory, Role role) {
  if (is_address(file))
    return fail(error(ErrorCode::unsupported,
                      fmt::format("{}: {} would have to be downloaded to know what is needed", to_text(origin), file))
                    .with_hint("save it beside the project and name that file instead"));
  const std::string path = file.starts_with('/') ? file : directory + file;
  auto added = add_file(path, role);
  if (!added && added.error().code == ErrorCode::not_found)
    return fail(
        error(ErrorCode::not_found, fmt::format("{}: there is no file {}", to_text(origin), m_folder.shown(path)))
            .with_hint("paths after -r and -c start from the file that names them"));
  if (!added) return fail(std::move(added.error()).with_context(fmt::format("included from {}", to_text(origin))));
  return {};
}

Result<void> RequirementsFileReader::add_requirement(std::string_view line, const Origin& origin, Role role) {
  std::vector<std::string> hashes;
  const std::string_view written = without_options(line, hashes);
  Requirement requirement = TRY(parse_requirement(with_variables(written), origin));
  requirement.as_written = quotable(written);
  requirement.hashes.insert(requirement.hashes.end(), hashes.begin(), hashes.end());
  if (take_interpreter(m_declaration, requirement)) return {};
  if (!TRY(check_path(m_folder, m_declaration, requirement))) return {};
  (role == Role::packages ? m_declaration.packages : m_declaration.constraints).push_back(std::move(requirement));
  return {};
}

}  // namespace startrail::project
