// Columns of a terminal that UTF-8 text takes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace startrail::cli {

// Wide characters (East Asian Width W and F, Unicode Annex 11, by their main blocks) count two, combining marks none.
[[nodiscard]] std::size_t columns_of(std::string_view text);
// As much of `text` as fits, ending in "…" when something was cut. Control characters become spaces.
[[nodiscard]] std::string cut_to_columns(std::string_view text, std::size_t columns);

}  // namespace startrail::cli
