#include "diagnose/rule.hpp"

#include <fmt/format.h>

#include "base/document.hpp"
#include "base/json.hpp"
#include "diagnose/checks.hpp"
#include "diagnose_rules.hpp"

namespace startrail::diagnose {
namespace {

Result<std::vector<Pattern>> patterns_at(const Json& item, std::string_view key) {
  std::vector<Pattern> patterns;
  for (const auto& text : base::strings_at(item, key)) patterns.push_back(TRY(Pattern::compile(text)));
  return patterns;
}

Result<About> about(std::string_view source) {
  if (source.empty()) return About::log;
  if (source == "host") return About::host;
  if (source == "project") return About::project;
  return fail(ErrorCode::corrupt, fmt::format("`{}` is no source", source));
}

Result<Rule> rule_from(const Json& item) {
  // A fact is a whole line of the sheet: what stands in the middle of one is its value.
  const bool of_host = base::string_at(item, "source") == "host";
  const std::string expression = base::string_at(item, "pattern");
  Pattern pattern = TRY(Pattern::compile(of_host ? fmt::format("(?m)^(?:{})", expression) : expression));
  Rule rule{.name = base::string_at(item, "name"),
            .cause = base::string_at(item, "class"),
            .about = TRY(about(base::string_at(item, "source"))),
            .confidence = base::number_at(item, "confidence"),
            .texts = base::strings_at(item, "text"),
            .pattern = std::move(pattern),
            .lines = static_cast<std::size_t>(base::integer_at(item, "lines", 1)),
            .before = static_cast<std::size_t>(base::integer_at(item, "before", 0)),
            .with = {},
            .without = {},
            .check = base::string_at(item, "check"),
            .explains = base::strings_at(item, "explains"),
            .summary = base::string_at(item, "summary"),
            .fixes = base::strings_at(item, "fix"),
            .commands = base::strings_at(item, "commands"),
            .examples = base::strings_at(item, "examples"),
            .not_examples = base::strings_at(item, "not")};
  rule.with = TRY(patterns_at(item, "with"));
  rule.without = TRY(patterns_at(item, "without"));
  if (rule.cause.empty() || rule.texts.empty() || rule.summary.empty() || rule.fixes.empty() || rule.confidence <= 0)
    return fail(ErrorCode::corrupt, "class, confidence, text, summary and fix are needed");
  if (!rule.check.empty() && find_check(rule.check) == nullptr)
    return fail(ErrorCode::corrupt, fmt::format("there is no check `{}`", rule.check));
  return rule;
}

Result<std::vector<Rule>> read_rules() {
  std::vector<Rule> all;
  for (const auto& [name, text] : k_rule_files) {
    const auto document = TRY(base::parse_toml(text, name));
    for (const auto& item : base::member(document.root, "rule"))
      all.push_back(TRY_CONTEXT(rule_from(item), fmt::format("{}: rule `{}`", name, base::string_at(item, "name"))));
  }
  return all;
}

}  // namespace

Result<const std::vector<Rule>*> rules() {
  static const Result<std::vector<Rule>> all = read_rules();
  if (!all) return fail(Error(all.error()));
  return &*all;
}

}  // namespace startrail::diagnose
