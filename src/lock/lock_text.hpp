// The text of a lock, apart from any file: what read_lock, fuzzing and tests share.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "lock/lock.hpp"

namespace startrail::lock {

// `name` is what errors call the text. Every field is checked; nothing on disk is looked at.
// Errors: corrupt (line and field), unsupported (lock-version, another platform or Python, no wheel that fits).
[[nodiscard]] Result<Lock> parse_lock(std::string_view text, const std::string& name,
                                      const std::string& python_if_absent = "3.11");

// A URL without user:password@, for files that others will read.
[[nodiscard]] std::string without_userinfo(std::string_view url);

}  // namespace startrail::lock
