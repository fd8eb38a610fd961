#include "project/conda_spec.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

bool is_name_character(char c) {
  return is_alphanumeric(c) || is_one_of(c, "-_.");
}

// One bound as conda writes it; "=1.2" and "1.2.*" match by prefix, a bare "1.2" exactly.
std::string pep440_clause(std::string_view clause) {
  clause = trimmed(clause);
  if (clause.empty() || clause == "*" || clause == "=*" || clause == "==*") return {};
  if (clause.starts_with("=>") || clause.starts_with("=<")) return fmt::format("{}={}", clause[1], clause.substr(2));
  for (const std::string_view operation : {"==", ">=", "<=", "!=", "~=", ">", "<"}) {
    if (!clause.starts_with(operation)) continue;
    std::string_view version = trimmed(clause.substr(operation.size()));
    const bool ordered = operation != "==" && operation != "!=";
    if (ordered && version.ends_with(".*")) version.remove_suffix(2);
    return std::string(operation) + std::string(version);
  }
  const bool fuzzy = clause.starts_with('=');
  if (fuzzy) clause = trimmed(clause.substr(1));
  std::string version(clause);
  if (version.ends_with('*') && !version.ends_with(".*")) version = version.substr(0, version.size() - 1) + ".*";
  if (fuzzy && !version.ends_with(".*")) {
    const auto parsed = Version::parse(version);
    // PEP 440 knows no prefix of a pre-release or post-release: the version itself is what is meant.
    if (parsed && !parsed->is_prerelease() && !parsed->is_postrelease() && parsed->local().empty()) version += ".*";
  }
  return "==" + version;
}

struct Parts {
  std::string_view name, version, build;
};

// "name[version='>=1',build=x]", "name=1.2=build", "name==1.2", "name >=1.2,<2", "name 1.2 build".
Parts split_spec(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && is_name_character(text[length])) ++length;
  Parts parts{.name = text.substr(0, length), .version = {}, .build = {}};
  std::string_view rest = trimmed(text.substr(length));
  if (rest.starts_with('[') && rest.ends_with(']')) {
    const std::size_t at = rest.find("version=");
    if (at == std::string_view::npos) return parts;
    rest = rest.substr(at + 8);
    const char quote = rest.empty() ? '\0' : rest.front();
    if (is_one_of(quote, "'\"")) {
      parts.version = rest.substr(1, rest.find(quote, 1) - 1);
    } else {
      parts.version = rest.substr(0, rest.find_first_of(",]"));
    }
    return parts;
  }
  parts.version = rest;
  const bool fuzzy =
      rest.starts_with('=') && !rest.starts_with("==") && !rest.starts_with("=>") && !rest.starts_with("=<");
  const std::size_t separator = fuzzy ? rest.find('=', 1) : rest.find(' ');
  const bool has_build = separator != std::string_view::npos && (fuzzy || (!rest.empty() && is_digit(rest.front())));
  if (has_build) {
    parts.version = trimmed(rest.substr(0, separator));
    parts.build = trimmed(rest.substr(separator + 1));
  }
  return parts;
}

bool is_exact_build(std::string_view build) {
  return !build.empty() && build.find('*') == std::string_view::npos;
}

// "py3.7_cuda11.1_cudnn8.0.5_0" → "11.1"; "py37_cu111" → "11.1".
std::string cuda_of_build(std::string_view build) {
  for (const std::string_view part : split(build, '_')) {
    if (part.starts_with("cuda") && part.size() > 4 && is_digit(part[4])) {
      const std::string_view version = part.substr(4);
      if (version.find('.') != std::string_view::npos) return std::string(version);
      if (version.size() == 3) return fmt::format("{}.{}", version.substr(0, 2), version.substr(2));
    }
    if (part.starts_with("cu") && part.size() == 5 && is_digit(part[2]) && is_digit(part[4]))
      return fmt::format("{}.{}", part.substr(2, 2), part.substr(4));
  }
  return {};
}

}  // namespace

Result<CondaSpec> parse_conda_spec(std::string_view text) {
  std::string_view rest = trimmed(text.substr(0, text.find(" #")));
  if (const std::size_t channel = rest.find("::"); channel != std::string_view::npos)
    rest = trimmed(rest.substr(channel + 2));
  const Parts parts = split_spec(rest);
  if (parts.name.empty()) return fail(ErrorCode::invalid_input, fmt::format("`{}` is not a conda package spec", text));
  CondaSpec spec{.name = to_lower(parts.name), .specifier = {}, .build = std::string(parts.build), .dropped = {}};
  if (parts.version.find('|') != std::string_view::npos) {
    spec.dropped = parts.version;
    return spec;
  }
  std::string version(parts.version);
  // name=1.2=build is one very build, so the version is meant to the letter.
  if (is_exact_build(parts.build) && version.starts_with('=') && !version.starts_with("==")) version = "=" + version;
  for (const std::string_view part : split(version, ',')) {
    const std::string clause = pep440_clause(part);
    if (!clause.empty()) spec.specifier += (spec.specifier.empty() ? "" : ",") + clause;
  }
  if (!SpecifierSet::parse(spec.specifier)) {
    spec.dropped = parts.version;
    spec.specifier.clear();
  }
  return spec;
}

Result<void> CondaCollector::add(std::string_view text, int line) {
  const Origin origin{.file = m_file, .line = line};
  auto parsed = parse_conda_spec(text);
  if (!parsed)
    return fail(error(ErrorCode::invalid_input, fmt::format("{}: {}", to_text(origin), parsed.error().message))
                    .with_hint("write name=1.2, name>=1.2 or name=1.2=build"));
  const CondaSpec& spec = *parsed;
  if (spec.name == "libgcc-ng" || spec.name == "openssl" || spec.name == "ca-certificates") m_full_export = true;
  if (const std::string_view foreign = foreign_system(spec.name); !foreign.empty()) m_foreign = foreign;
  const CondaMeaning meaning = conda_meaning(spec.name);
  switch (meaning.role) {
    case CondaRole::package: add_package(spec, meaning, origin, text); break;
    case CondaRole::python: {
      const auto specifier = python_specifier(spec.specifier);
      if (specifier && !specifier->empty()) m_declaration.python = Fact<std::string>{*specifier, origin};
      break;
    }
    case CondaRole::cuda: take_cuda(spec, origin); break;
    case CondaRole::system: m_programs.push_back({meaning.distribution, origin}); break;
    case CondaRole::cpu_build:
      m_declaration.note(origin, "cpuonly: the default build runs on CPUs too; `--cpu` takes the smaller CPU build");
      break;
    case CondaRole::installer: break;
    case CondaRole::library: m_skipped.push_back(spec.name); break;
  }
  return {};
}

void CondaCollector::add_package(const CondaSpec& spec, const CondaMeaning& meaning, const Origin& origin,
                                 std::string_view text) {
  if (spec.build.starts_with("pypi") && spec.name == "pip") return;
  const std::string name = spec.build.starts_with("pypi") ? normalized_name(spec.name) : meaning.distribution;
  if (!spec.dropped.empty())
    m_declaration.note(
        origin, fmt::format("{}: wheels have no such version, so any version of {} is taken", trimmed(text), name));
  if (name == "torch" && !m_cuda_of_build)
    if (std::string cuda = cuda_of_build(spec.build); !cuda.empty())
      m_cuda_of_build = Fact<std::string>{std::move(cuda), origin};
  const auto same = std::ranges::find(m_declaration.packages, name, &Requirement::name);
  if (same != m_declaration.packages.end()) {  // matplotlib and matplotlib-base, opencv and py-opencv
    if (same->specifier.empty()) same->specifier = spec.specifier;
    return;
  }
  m_declaration.packages.push_back(
      {.name = name, .specifier = spec.specifier, .origin = origin, .as_written = std::string(trimmed(text))});
}

void CondaCollector::take_cuda(const CondaSpec& spec, const Origin& origin) {
  const std::size_t digit = spec.specifier.find_first_of("0123456789");
  if (digit == std::string::npos) return;
  std::string_view version = std::string_view(spec.specifier).substr(digit);
  version = version.substr(0, version.find_first_not_of("0123456789."));
  const auto numbers = split(version, '.');
  if (numbers.size() < 2 || numbers[1].empty()) return;
  m_declaration.cuda = Fact<std::string>{fmt::format("{}.{}", numbers[0], numbers[1]), origin};
}

void CondaCollector::finish() {
  if (!m_declaration.cuda) m_declaration.cuda = m_cuda_of_build;
  const Origin whole{.file = m_file};
  // A full export names every program that some package pulled in; only a list made by hand means them.
  if (m_full_export) {
    for (const auto& program : m_programs) m_skipped.push_back(program.value);
  } else {
    m_declaration.system_packages.insert(m_declaration.system_packages.end(), m_programs.begin(), m_programs.end());
  }
  if (!m_skipped.empty())
    m_declaration.note(
        whole, fmt::format("{} conda system librar{} left out ({}): wheels and the base system bring them",
                           m_skipped.size(), m_skipped.size() == 1 ? "y is" : "ies are", enumerated(m_skipped, 3)));
  if (!m_foreign.empty())
    m_declaration.note(
        whole,
        fmt::format("the environment was exported on {}: its exact versions may not exist for Linux", m_foreign));
}

bool is_conda_list(const std::vector<JoinedLine>& lines) {
  const auto is_export = [](const JoinedLine& line) {
    std::size_t name = 0;
    while (name < line.text.size() && is_name_character(line.text[name])) ++name;
    return name > 0 && name + 1 < line.text.size() && line.text[name] == '=' && line.text[name + 1] != '=' &&
           std::ranges::count(line.text, '=') == 2;
  };
  return !lines.empty() && std::ranges::all_of(lines, is_export);
}

Result<void> add_conda_list(Declaration& declaration, const std::vector<JoinedLine>& lines, const std::string& file) {
  declaration.note({.file = file}, "this is a list of conda packages, read as such");
  CondaCollector collector(declaration, file);
  for (const JoinedLine& line : lines) TRY(collector.add(line.text, line.line));
  collector.finish();
  return {};
}

}  // namespace startrail::project
