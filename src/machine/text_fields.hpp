// The plain-text files of /proc, /sys and /etc, read in small pieces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace startrail::machine {

// The file's text, "" when it can't be read: what is not there is not a fault here.
[[nodiscard]] std::string text_of(const std::filesystem::path& file);
[[nodiscard]] std::string_view trimmed(std::string_view text);
[[nodiscard]] std::vector<std::string_view> lines(std::string_view text);
[[nodiscard]] std::vector<std::string_view> words(std::string_view text);
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
// Decimal digits only, surrounding blanks allowed.
[[nodiscard]] std::optional<std::uint64_t> number(std::string_view text);
// The rest of the line that begins with `key` ("MemTotal:"), trimmed.
[[nodiscard]] std::optional<std::string_view> field(std::string_view text, std::string_view key);

}  // namespace startrail::machine
