#include "diagnose/diagnose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/json.hpp"
#include "diagnose/checks.hpp"
#include "diagnose/literal_scanner.hpp"
#include "diagnose/log_text.hpp"
#include "diagnose/rule.hpp"

namespace startrail::diagnose {
namespace {

constexpr std::size_t k_most_tries = 20'000;  // of one rule in one text
constexpr std::size_t k_most_places = 200;
constexpr std::size_t k_most_evidence = 3;
constexpr std::size_t k_longest_evidence = 400;

struct Scanner {
  LiteralScanner literals;
  std::vector<std::size_t> rule_of;  // by the literal's number
};

const Scanner& scanner_for(const std::vector<Rule>& rules) {
  static const Scanner scanner = [&] {
    Scanner made;
    for (std::size_t rule = 0; rule < rules.size(); ++rule) {
      for (const std::string& text : rules[rule].texts) {
        made.literals.add(text, static_cast<std::uint32_t>(made.rule_of.size()));
        made.rule_of.push_back(rule);
      }
    }
    made.literals.finish();
    return made;
  }();
  return scanner;
}

// The places where one rule's pattern matched.
struct Places {
  std::size_t tries = 0, count = 0;
  std::string_view last_window;      // several texts of a rule in one line are one try
  std::vector<std::size_t> offsets;  // of the first few
  Captures words;
  std::string_view window;
};

std::string line_for_evidence(std::string_view line) {
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front())) != 0) line.remove_prefix(1);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.remove_suffix(1);
  return std::string(line.substr(0, k_longest_evidence));
}

bool is_blocked(const Rule& rule, const LogText& log, std::size_t offset) {
  if (rule.with.empty() && rule.without.empty()) return false;
  const std::string_view nearby = log.around(offset, k_nearby_lines, k_nearby_lines);
  const auto occurs = [&](const Pattern& pattern) { return pattern.find(nearby).has_value(); };
  return std::ranges::any_of(rule.without, occurs) || !std::ranges::all_of(rule.with, occurs);
}

void try_rule(const Rule& rule, std::size_t offset, const LogText& log, Places& places) {
  if (places.tries >= k_most_tries || places.count >= k_most_places) return;
  const std::string_view window = log.around(offset, rule.before, rule.lines - 1);
  if (window.data() == places.last_window.data() && !window.empty()) return;
  places.last_window = window;
  ++places.tries;
  auto found = rule.pattern.find(window);
  if (!found || is_blocked(rule, log, offset)) return;
  if (places.count++ == 0) {
    places.words = std::move(found->captures);
    places.window = window;
  }
  const std::size_t place = static_cast<std::size_t>(window.data() - log.all().data()) + found->offset;
  if (places.offsets.size() < k_most_evidence) places.offsets.push_back(place);
}

std::vector<Places> match_all(const std::vector<Rule>& rules, About about, const LogText& log) {
  std::vector<Places> places(rules.size());
  const Scanner& scanner = scanner_for(rules);
  scanner.literals.scan(log.all(), [&](std::uint32_t literal, std::size_t end) {
    const std::size_t rule = scanner.rule_of[literal];
    if (rules[rule].about == about) try_rule(rules[rule], end - 1, log, places[rule]);
  });
  return places;
}

std::string filled(std::string_view text, const Captures& words) {
  std::string result;
  while (!text.empty()) {
    const std::size_t open = text.find('{');
    const std::size_t close = open == std::string_view::npos ? open : text.find('}', open);
    if (close == std::string_view::npos) break;
    const std::string_view name = text.substr(open + 1, close - open - 1);
    const bool is_name = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
      return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
    });
    result += text.substr(0, open);
    if (!is_name)
      result += text.substr(open, close - open + 1);
    else if (const auto word = words.find(name); word != words.end())
      result += word->second;
    text.remove_prefix(close + 1);
  }
  return result + std::string(text);
}

// Words that many fixes use.
void add_machine_words(Captures& words, const machine::Machine* machine) {
  words["driver_advice"] =
      machine != nullptr && machine->driver
          ? fmt::format("this machine has {}; CUDA 12 needs 525 or newer, CUDA 13 needs 580", machine->driver->version)
          : "CUDA 11 needs 450 or newer, CUDA 12 525, CUDA 13 580";
}

std::optional<Finding> finding_from(const Rule& rule, Places& places, LogText& log, std::string_view source,
                                    const Circumstances& circumstances) {
  double confidence = rule.confidence;
  add_machine_words(places.words, circumstances.machine);
  if (!rule.check.empty()) {
    Match match{.words = places.words,
                .confidence = confidence,
                .window = places.window,
                .nearby = log.around(places.offsets.front(), k_nearby_lines, k_nearby_lines),
                .count = places.count,
                .circumstances = circumstances};
    if (!find_check(rule.check)(match)) return std::nullopt;
  }
  Finding finding{.cause = rule.cause,
                  .rule = rule.name,
                  .summary = filled(rule.summary, places.words),
                  .confidence = confidence,
                  .evidence = {},
                  .fixes = {}};
  for (const std::size_t offset : places.offsets)
    finding.evidence.push_back({.source = std::string(source),
                                .line = log.line_number(offset),
                                .text = line_for_evidence(log.around(offset, 0, 0))});
  for (const auto& [from, to] : {std::pair(&rule.fixes, &finding.fixes), {&rule.commands, &finding.commands}})
    for (const std::string& line : *from)
      if (std::string text = filled(line, places.words); !text.empty()) to->push_back(std::move(text));
  return finding;
}

// Consequences of another finding go; of two rules for one cause the surer stays, with the evidence of both.
std::vector<Finding> without_consequences(std::vector<Finding> findings, const std::vector<Rule>& rules) {
  std::vector<std::string> explained;
  for (const Finding& finding : findings) {
    const auto rule = std::ranges::find(rules, finding.rule, &Rule::name);
    explained.insert(explained.end(), rule->explains.begin(), rule->explains.end());
  }
  std::erase_if(findings,
                [&](const Finding& finding) { return std::ranges::find(explained, finding.rule) != explained.end(); });
  std::vector<Finding> kept;
  for (Finding& finding : findings) {
    const auto same = std::ranges::find(kept, finding.cause, &Finding::cause);
    if (same == kept.end())
      kept.push_back(std::move(finding));
    else if (same->evidence.size() < k_most_evidence)
      same->evidence.push_back(std::move(finding.evidence.front()));
  }
  return kept;
}

Result<std::vector<Finding>> findings_about(About about, std::string_view text, std::string_view source,
                                            const Circumstances& circumstances) {
  const std::vector<Rule>& all = *TRY(rules());
  LogText log(text);
  std::vector<Places> places = match_all(all, about, log);
  std::vector<Finding> findings;
  for (std::size_t rule = 0; rule < all.size(); ++rule) {
    if (places[rule].count == 0) continue;
    if (auto finding = finding_from(all[rule], places[rule], log, source, circumstances))
      findings.push_back(std::move(*finding));
  }
  // The surest first; of equals the one that was printed first, because what follows is often its consequence.
  std::ranges::stable_sort(findings, {}, [](const Finding& finding) { return finding.evidence.front().line; });
  std::ranges::stable_sort(findings, std::greater<>(), &Finding::confidence);
  return without_consequences(std::move(findings), all);
}

// The kernel's ring buffer holds what happened since the machine started: cards and memory, and nothing that only a
// program could have printed.
bool is_of_the_kernel(const Finding& finding) {
  return finding.cause == "xid" || finding.cause == "host-oom" || finding.cause == "driver-lib-mismatch";
}

// Without what a control group's own limit did: that is its run's matter, not the host's.
std::string without_limits_of_groups(std::string_view messages) {
  std::string kept;
  while (!messages.empty()) {
    const std::string_view line = messages.substr(0, messages.find('\n'));
    const bool of_group = line.find("CONSTRAINT_MEMCG") != std::string_view::npos ||
                          line.find("Memory cgroup out of memory") != std::string_view::npos;
    kept.append(of_group ? std::string_view() : line).push_back('\n');
    messages.remove_prefix(std::min(messages.size(), line.size() + 1));
  }
  return kept;
}

Result<std::vector<Finding>> findings_in_kernel_messages(std::string_view messages,
                                                         const Circumstances& circumstances) {
  constexpr double k_past = 0.8;  // it was so; that it still is, nobody knows
  auto findings = TRY(findings_about(About::log, without_limits_of_groups(messages), "kernel messages", circumstances));
  std::erase_if(findings, [](const Finding& finding) { return !is_of_the_kernel(finding); });
  for (Finding& finding : findings) finding.confidence = std::min(finding.confidence, k_past);
  return findings;
}

// A fact is a line: what a path or a message has in it must not look like another one.
std::string on_one_line(std::string text) {
  for (char& c : text)
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  return text;
}

// Lines of the sheet of facts → where each fact was read.
void name_sources(Finding& finding, const std::vector<machine::Fact>& facts) {
  for (Evidence& evidence : finding.evidence) {
    if (evidence.line == 0 || evidence.line > facts.size()) continue;
    evidence.source = facts[evidence.line - 1].read_from;
    evidence.line = 0;
  }
}

}  // namespace

Result<std::vector<Finding>> diagnose_text(std::string_view text, std::string_view source,
                                           const Circumstances& circumstances) {
  return findings_about(About::log, text, source, circumstances);
}

Result<std::vector<Finding>> diagnose_host(const std::vector<machine::Fact>& facts, std::string_view kernel_messages,
                                           const Circumstances& circumstances) {
  std::string sheet;
  for (const auto& fact : facts) sheet += fmt::format("{}: {}\n", on_one_line(fact.name), on_one_line(fact.value));
  auto findings = TRY(findings_about(About::host, sheet, "host", circumstances));
  for (Finding& finding : findings) name_sources(finding, facts);
  for (Finding& finding : TRY(findings_in_kernel_messages(kernel_messages, circumstances)))
    findings.push_back(std::move(finding));
  return findings;
}

Result<Finding> diagnose_refusal(const Error& refusal, const Circumstances& circumstances) {
  auto findings = TRY(findings_about(About::project, "error: " + refusal.message, "project", circumstances));
  Finding finding = findings.empty()
                        ? Finding{.cause = "project", .rule = "project", .summary = refusal.message, .confidence = 0.9}
                        : std::move(findings.front());
  finding.evidence = {{.source = "project", .line = 0, .text = refusal.message}};
  for (const std::string& context : refusal.context)
    finding.evidence.push_back({.source = "project", .line = 0, .text = context});
  finding.fixes.insert(finding.fixes.begin(), refusal.hints.begin(), refusal.hints.end());
  return finding;
}

std::string_view certainty(double confidence) {
  return confidence >= 0.85 ? "certain" : confidence >= 0.7 ? "likely" : "a guess";
}

Json to_json(const Finding& finding) {
  Json evidence = Json::array();
  for (const Evidence& item : finding.evidence)
    evidence.push_back(
        {{"source", item.source}, {"line", item.line > 0 ? Json(item.line) : Json(nullptr)}, {"text", item.text}});
  return {{"class", finding.cause},
          {"rule", finding.rule},
          {"summary", finding.summary},
          {"confidence", finding.confidence},
          {"certainty", certainty(finding.confidence)},
          {"evidence", std::move(evidence)},
          {"fix", finding.fixes},
          {"commands", finding.commands}};
}

}  // namespace startrail::diagnose
