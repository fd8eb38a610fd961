// Names for runs that people can say to each other.
#pragma once

#include <string>

namespace startrail::run {

// "quiet-falcon-3f2a", from the kernel's randomness. Unique only once a directory of that name was made.
[[nodiscard]] std::string random_run_id();

}  // namespace startrail::run
