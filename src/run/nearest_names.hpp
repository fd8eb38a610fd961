// "did you mean": names that differ from a wrong one by a few letters.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace startrail::run {

// At most three, nearest first; only those within a third of the wanted name's length (Levenshtein distance).
[[nodiscard]] std::vector<std::string> nearest_names(const std::string& wanted, const std::set<std::string>& names);

}  // namespace startrail::run
