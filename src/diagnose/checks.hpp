// What a pattern can't say: comparisons of numbers and versions, and the words that depend on them.
#pragma once

#include <cstddef>
#include <string_view>

#include "diagnose/diagnose.hpp"
#include "diagnose/pattern.hpp"

namespace startrail::diagnose {

// One rule's match, as its check sees and completes it.
struct Match {
  Captures& words;          // named groups; a check adds the words that summary and fixes use
  double& confidence;       // as the rule has it; a check may lower or raise it
  std::string_view window;  // what the pattern saw
  std::string_view nearby;  // k_nearby_lines to both sides
  std::size_t count = 1;    // places where the rule matched
  const Circumstances& circumstances;
};

// False: it isn't this rule's case after all.
using Check = bool (*)(Match& match);

inline constexpr std::size_t k_nearby_lines = 100;

// nullptr when there is none of that name.
[[nodiscard]] Check find_check(std::string_view name);

}  // namespace startrail::diagnose
