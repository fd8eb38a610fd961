#include "lock/build_attempts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace startrail::lock {
namespace {

constexpr int k_most_attempts = 8;

}  // namespace

Result<BuiltAnswer> resolve_with_builds(UvSession& session, const Probe& candidate,
                                        const std::vector<std::string>& bounds, BuildHelp help, Reporter& reporter) {
  reporter.step(fmt::format("asking {} for what it needs, on Python {}", fmt::join(candidate.to_build, ", "),
                            candidate.python.minor));
  BuiltAnswer built;
  Question question{.python = candidate.python, .builds = Builds::allowed, .bounds = bounds, .help = std::move(help)};
  for (int attempt = 0; attempt < k_most_attempts; ++attempt) {
    built.answer = TRY(session.ask(question));
    if (built.answer.lock_text || !learn(question.help, built.answer.failure, built.notes)) break;
  }
  built.help = std::move(question.help);
  return built;
}

}  // namespace startrail::lock
