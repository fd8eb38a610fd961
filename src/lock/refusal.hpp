// A resolution that can't be, told to the user: what clashes, where each side was read, and ways out that were tried.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "lock/probe.hpp"
#include "lock/request_lines.hpp"

namespace startrail::lock {

// The sentence, its places and general hints; hints that take further questions to uv are `ways_out`.
[[nodiscard]] Error refusal(const UvFailure& failure, const Request& request, const std::string& python);

// No Python of those offered has what is asked for. `elsewhere` is another Python that would do, if there is one.
[[nodiscard]] Error no_python_refusal(const std::vector<Probe>& probes, const Request& request,
                                      const std::optional<std::string>& elsewhere);

// Packages whose pins stand in the way, for loosening: those without wheels, those that contradict each other.
[[nodiscard]] Loosened suspects(const UvFailure& failure, const Request& request);

// One hint on what a resolution without `loosened`'s specifiers came to: "write numpy==1.26.4 instead of numpy==2.0.0
// (requirements.txt:2)"; several changes that only fit together are one hint. nullopt when it changes nothing.
[[nodiscard]] std::optional<std::string> way_out(const Lock& solution, const Loosened& loosened,
                                                 const Request& request);

// A hint that follows from uv's words alone, for when none could be confirmed in time; "" when nothing does.
[[nodiscard]] std::string untried_way_out(const UvFailure& failure, const Request& request);

// The repositories that a git failure is about, as the project's files list them. Which of several uv fails on first is
// chance; a host that can't be reached is out of reach for all that lie there.
struct Repository {
  std::string address;  // without "git+", credentials, revision and fragment
  std::string project;  // the requirement's own name, else the last part of the address
  std::string place;    // "git+https://… is read from requirements.txt:2"; "" for another package's requirement
};
[[nodiscard]] std::vector<Repository> repositories(const UvFailure& failure, const Request& request);

// Names that people write and that aren't what they mean: "sklearn" → "scikit-learn"; "" for others.
[[nodiscard]] std::string meant_instead_of(std::string_view name);

}  // namespace startrail::lock
