// OCI runtimes on this host.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.hpp"

namespace startrail::machine {

// "runc version 1.1.5+ds1" → "1.1.5+ds1".
[[nodiscard]] std::string runtime_version(std::string_view output_of_version_flag);

// Whether that version can work with these cgroups; fills `usable` and `why_not`.
void judge(Runtime& runtime, CgroupMode mode);

// runc and crun on PATH. Their versions are kept in <state_root>/cache/runtimes.json by path, size and time of
// change, so that a program is started only when it is new.
[[nodiscard]] std::vector<Runtime> survey_runtimes(const std::filesystem::path& state_root, CgroupMode mode,
                                                   Depth depth);

}  // namespace startrail::machine
