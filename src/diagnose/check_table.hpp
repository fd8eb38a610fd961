// The checks by subject; checks.cpp puts them together.
#pragma once

#include <span>
#include <string_view>

#include "diagnose/checks.hpp"

namespace startrail::diagnose {

struct NamedCheck {
  std::string_view name;
  Check check;
};
[[nodiscard]] std::span<const NamedCheck> gpu_checks();
[[nodiscard]] std::span<const NamedCheck> host_checks();
[[nodiscard]] std::span<const NamedCheck> memory_checks();
[[nodiscard]] std::span<const NamedCheck> package_checks();
[[nodiscard]] std::span<const NamedCheck> process_checks();

// The word of the first of these names that took part, or "".
[[nodiscard]] std::string first_word(const Match& match, std::initializer_list<std::string_view> names);
// Does the expression occur? It is compiled once per call site's text.
[[nodiscard]] bool occurs(std::string_view text, std::string_view expression);

}  // namespace startrail::diagnose
