// Dotted numbers as drivers and programs write them ("535.183.01", "1.8.1+ds1").
#pragma once

#include <string_view>
#include <vector>

namespace startrail::machine {

// The leading dotted numbers: "535.183.01" → {535, 183, 1}; what follows them is ignored.
[[nodiscard]] std::vector<unsigned long> version_numbers(std::string_view text);
// Missing parts count as 0.
[[nodiscard]] bool older(std::string_view left, std::string_view right);

}  // namespace startrail::machine
