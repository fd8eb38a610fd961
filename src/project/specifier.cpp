// PEP 440, "Version specifiers".
#include <fmt/format.h>

#include <algorithm>

#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

constexpr std::string_view k_operators[] = {"===", "==", "!=", "~=", "<=", ">=", "<", ">"};

std::string_view operator_of(std::string_view clause) {
  for (const std::string_view operation : k_operators)
    if (clause.starts_with(operation)) return operation;
  return {};
}

Error no_operator(std::string_view whole) {
  const std::string clause = quotable(whole);
  if (clause.starts_with('=')) {
    const std::string_view version = trimmed(std::string_view(clause).substr(1));
    return error(ErrorCode::invalid_input, fmt::format("`{}`: a single `=` is not an operator of PEP 440", clause))
        .with_hint(fmt::format("write =={}", version));
  }
  if (!clause.empty() && is_one_of(clause.front(), "^~"))
    return error(ErrorCode::invalid_input,
                 fmt::format("`{}`: `{}` is Poetry's and npm's, not an operator of PEP 440", clause, clause.front()))
        .with_hint(fmt::format("write ~={} or a range such as >=1.2,<2", trimmed(std::string_view(clause).substr(1))));
  return error(ErrorCode::invalid_input, fmt::format("`{}` has no operator (==, >=, ~=, …)", clause))
      .with_hint(fmt::format("write =={}", clause));
}

Error local_not_allowed(std::string_view operation, const Version& version) {
  Error reason = error(ErrorCode::invalid_input, fmt::format("`{}{}`: PEP 440 forbids a local version (+{}) with {}",
                                                             operation, version.text(), version.local(), operation));
  return std::move(reason).with_hint(
      fmt::format("write =={} or {}{}", version.text(), operation, version.without_local().text()));
}

Error wildcard_not_allowed(std::string_view operation, std::string_view prefix) {
  return error(ErrorCode::invalid_input,
               fmt::format("`{}{}.*`: PEP 440 allows a wildcard only with == and !=", operation, prefix))
      .with_hint(fmt::format("write {}{}", operation == "~=" ? "==" : operation,
                             operation == "~=" ? fmt::format("{}.*", prefix) : std::string(prefix)));
}

}  // namespace

Result<SpecifierSet::Clause> SpecifierSet::parse_clause(std::string_view text) {
  const std::string_view operation = operator_of(text);
  if (operation.empty()) return fail(no_operator(text));
  std::string_view version = trimmed(text.substr(operation.size()));
  Clause clause{.operation = std::string(operation), .version_text = std::string(version), .version = {}};
  if (version.empty()) return fail(ErrorCode::invalid_input, fmt::format("`{}` names no version", quotable(text)));
  if (version.find_first_of(" \t<>=~") != std::string_view::npos)
    return fail(
        error(ErrorCode::invalid_input, fmt::format("`{}`: clauses must be separated by a comma", quotable(text)))
            .with_hint("write the bounds as in >=1.2,<2"));
  if (operation == "===") {
    if (auto parsed = Version::parse(version)) clause.version = std::move(*parsed);
    return clause;
  }
  if (version.ends_with(".*")) {
    version.remove_suffix(2);
    if (operation != "==" && operation != "!=") return fail(wildcard_not_allowed(operation, version));
    clause.prefix = true;
  }
  auto parsed = Version::parse(version);
  if (!parsed) {
    Error reason = error(ErrorCode::invalid_input, fmt::format("`{}`: `{}` is not a version (PEP 440)", text, version));
    return fail(std::move(reason).with_hint("a version is numbers with dots, such as 1.13.1, 2.0rc1 or 2.1.0+cu118"));
  }
  const bool exact = operation == "==" || operation == "!=";
  if (!parsed->local().empty() && (!exact || clause.prefix)) return fail(local_not_allowed(operation, *parsed));
  if (operation == "~=" && parsed->release().size() < 2)
    return fail(
        error(ErrorCode::invalid_input,
              fmt::format("`{}`: ~= needs at least two numbers, such as ~={}.0 (PEP 440)", text, parsed->text()))
            .with_hint(fmt::format("write =={}.* or >={}", parsed->text(), parsed->text())));
  clause.version = std::move(*parsed);
  return clause;
}

Result<SpecifierSet> SpecifierSet::parse(std::string_view text) {
  SpecifierSet set;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view clause_text = trimmed(part);
    if (clause_text.empty()) continue;  // a trailing comma is common, and harmless
    Clause clause = TRY(parse_clause(clause_text));
    if (!set.m_text.empty()) set.m_text += ',';
    set.m_text += clause.operation + clause.version_text;
    set.m_clauses.push_back(std::move(clause));
  }
  return set;
}

bool SpecifierSet::matches(const Clause& clause, const Version& version) {
  if (clause.operation == "===")
    return to_lower(clause.version_text) == version.text() ||
           (clause.version && clause.version->text() == version.text());
  const Version& bound = *clause.version;
  const Version candidate = version.without_local();
  if (clause.operation == "==" || clause.operation == "!=") {
    const bool equal =
        clause.prefix ? candidate.has_prefix(bound) : (bound.local().empty() ? candidate : version) == bound;
    return equal == (clause.operation == "==");
  }
  if (clause.operation == "~=") {
    Version prefix = bound;
    prefix.m_release.pop_back();
    prefix.m_pre_kind = 0;
    return candidate >= bound && candidate.has_prefix(prefix);
  }
  if (clause.operation == ">=") return candidate >= bound;
  if (clause.operation == "<=") return candidate <= bound;
  // "Exclusive ordered comparison": 3.8rc1 is not <3.8, and 3.8.post1 is not >3.8.
  if (clause.operation == "<")
    return candidate < bound && (bound.is_prerelease() || !candidate.is_prerelease() || !candidate.same_release(bound));
  Version origin = candidate;  // what the candidate is a post-release of
  origin.m_post.reset();
  origin.m_dev.reset();
  return candidate > bound && (bound.is_postrelease() || !candidate.is_postrelease() || origin != bound);
}

bool SpecifierSet::contains(const Version& version) const {
  const auto names_prerelease = [](const Clause& clause) {
    return clause.operation != "!=" && clause.version && clause.version->is_prerelease();
  };
  if (version.is_prerelease() && std::ranges::none_of(m_clauses, names_prerelease)) return false;
  return std::ranges::all_of(m_clauses, [&](const Clause& clause) { return matches(clause, version); });
}

std::optional<Version> SpecifierSet::pinned() const {
  for (const Clause& clause : m_clauses)
    if (clause.operation.starts_with("==") && !clause.prefix && clause.version) return clause.version;
  return std::nullopt;
}

bool SpecifierSet::admits_series(std::string_view prefix) const {
  const auto series = Version::parse(prefix);
  if (!series) return false;
  for (const Clause& clause : m_clauses)
    if (clause.version && clause.version->has_prefix(*series) && contains(*clause.version)) return true;
  Version candidate = *series;
  candidate.m_release.push_back(0);
  for (unsigned long patch = 0; patch < 100; ++patch) {
    candidate.m_release.back() = patch;
    if (contains(candidate)) return true;
  }
  return false;
}

}  // namespace startrail::project
