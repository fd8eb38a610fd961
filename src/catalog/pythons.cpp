#include "catalog/pythons.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "machine/versions.hpp"

namespace startrail::catalog {
namespace {

constexpr int k_newest_known_minor = 20;  // of Python 3, for asking a version set what it allows

int minor_number(std::string_view minor) {
  const auto numbers = machine::version_numbers(minor);
  return numbers.size() > 1 ? static_cast<int>(numbers[1]) : 0;
}

std::vector<int> allowed_minors(const project::SpecifierSet& versions) {
  std::vector<int> minors;
  for (int minor = 0; minor <= k_newest_known_minor; ++minor)
    if (versions.admits_series(fmt::format("3.{}", minor))) minors.push_back(minor);
  return minors;
}

// "3.11" given to --python means that series; a full specifier is taken as it is.
std::string as_specifier(const std::string& text) {
  if (text.find_first_of("=<>!~") != std::string::npos) return text;
  const auto dots = std::ranges::count(text, '.');
  return dots >= 2 ? "==" + text : "==" + text + ".*";
}

int distance(std::string_view minor, const std::vector<int>& wanted) {
  int nearest = std::numeric_limits<int>::max();
  for (const int other : wanted) nearest = std::min(nearest, std::abs(other - minor_number(minor)));
  return nearest;
}

std::string joined(const std::vector<std::string>& words) {
  if (words.empty()) return "none";
  if (words.size() == 1) return words.front();
  return fmt::format("{} and {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

}  // namespace

const std::vector<Offer>& offers() {
  static const std::vector<Offer> s_offers{
      {"3.11", "bookworm", "2.36"}, {"3.13", "trixie", "2.41"}, {"3.9", "bullseye", "2.31"}};
  return s_offers;
}

std::string shown_offers() {
  std::vector<std::string> minors;
  for (const auto& offer : offers()) minors.emplace_back(offer.minor);
  std::ranges::sort(minors, machine::older);
  return joined(minors);
}

Result<PythonDemand> python_demand(const project::Requirements& needs, const ChooseOptions& options) {
  PythonDemand demand;
  if (options.python) {
    demand.text = as_specifier(*options.python);
    demand.where = "--python";
  } else if (needs.python) {
    demand.text = needs.python->value;
    demand.where = project::to_text(needs.python->origin);
  }
  const auto versions =
      TRY_CONTEXT(project::SpecifierSet::parse(demand.text), fmt::format("read from {}", demand.where));
  demand.minors = allowed_minors(versions);
  if (options.python && !is_offered(demand))
    return fail(base::error(ErrorCode::refused, fmt::format("Python {} is not on offer", *options.python))
                    .with_context(fmt::format("Debian's suites bring {}", shown_offers()))
                    .with_hint("leave --python away to get the nearest one with wheels"));
  if (demand.minors.empty())
    return fail(
        base::error(ErrorCode::refused, fmt::format("the project asks for Python {}, which no base has", demand.text))
            .with_context(fmt::format("read from {}", demand.where))
            .with_context(fmt::format("Debian's suites bring {}", shown_offers()))
            .with_hint("`trail lock --python 3.11` tries another Python; code for Python 2 must be ported first"));
  return demand;
}

bool PythonDemand::allows(std::string_view minor) const {
  return minor.starts_with("3.") && std::ranges::find(minors, minor_number(minor)) != minors.end();
}

PythonDemand any_python() {
  PythonDemand demand;
  for (int minor = 0; minor <= k_newest_known_minor; ++minor) demand.minors.push_back(minor);
  return demand;
}

bool is_offered(const PythonDemand& demand) {
  return std::ranges::any_of(offers(), [&](const Offer& offer) { return demand.allows(offer.minor); });
}

std::vector<PythonChoice> python_candidates(const PythonDemand& demand, const HasWheels& has_wheels) {
  std::vector<PythonChoice> candidates;
  const auto take = [&](const Offer& offer, std::string remark) {
    candidates.push_back(
        {.minor = std::string(offer.minor), .suite = std::string(offer.suite), .remark = std::move(remark)});
  };
  if (is_offered(demand)) {
    for (const auto& offer : offers())
      if (demand.allows(offer.minor) && has_wheels(offer.minor)) take(offer, "");
    return candidates;
  }
  std::vector<Offer> nearest = offers();
  std::ranges::sort(nearest, [&](const Offer& a, const Offer& b) {
    const int left = distance(a.minor, demand.minors);
    const int right = distance(b.minor, demand.minors);
    return left != right ? left < right : minor_number(a.minor) > minor_number(b.minor);
  });
  for (const auto& offer : nearest)
    if (has_wheels(offer.minor))
      take(offer, fmt::format("the project asks for Python {} ({}), which Debian has not: {} is the {} with wheels",
                              demand.text, demand.where, offer.minor, candidates.empty() ? "nearest" : "next nearest"));
  return candidates;
}

std::string shown_minors(const std::vector<std::string>& minors) {
  std::vector<std::string> runs;
  for (std::size_t first = 0; first < minors.size();) {
    std::size_t last = first;
    while (last + 1 < minors.size() && minors[last + 1].substr(0, 2) == minors[last].substr(0, 2) &&
           minor_number(minors[last + 1]) == minor_number(minors[last]) + 1)
      ++last;
    runs.push_back(first == last ? minors[first] : fmt::format("{} to {}", minors[first], minors[last]));
    first = last + 1;
  }
  return joined(runs);
}

}  // namespace startrail::catalog
