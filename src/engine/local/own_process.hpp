// The calling process as the kernel sees it: how large it is, and the words by which others see it.
#pragma once

#include <optional>
#include <string_view>

#include "base/units.hpp"

namespace startrail::engine::local {

struct ProcessSize {
  int threads = 0;
  Bytes anonymous;  // resident memory of its own, which a copy would share at first and inherit
};
// nullopt where /proc doesn't say it.
[[nodiscard]] std::optional<ProcessSize> own_size();

// What ps(1) shows in the place of the command line. The environment moves elsewhere to make room: pointers that
// getenv(3) gave before are no longer good. For a forked child that goes on without exec; best effort.
void show_as(std::string_view title);

}  // namespace startrail::engine::local
