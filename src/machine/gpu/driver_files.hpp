// The driver's user-space files on the host: what a container needs from them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "machine/gpu/cdi.hpp"

namespace startrail::machine {

// Directories named in an ld.so.cache (glibc's "glibc-ld.so.cache1.1" format, alone or behind the old one) that
// hold libraries whose names begin with one of `prefixes`; in the cache's order, each once.
// A damaged cache gives what could be read.
[[nodiscard]] std::vector<std::string> cached_library_directories(std::string_view cache,
                                                                  const std::vector<std::string_view>& prefixes);

// Where inside a container the driver's libraries lie: a place of their own, so that an image's files stay as they are.
inline constexpr std::string_view k_container_library_directory = "/usr/local/nvidia/lib64";

// The libraries of this driver version, each under its own name and under the names that programs ask for.
// Errors: not_found (libcuda or another library that computing needs is missing: names it and the package).
[[nodiscard]] Result<std::vector<DriverFile>> driver_libraries(const HostPaths& paths, const std::string& version);

// nvidia-smi, the persistence daemon's socket: as far as they are there.
[[nodiscard]] std::vector<DriverFile> driver_programs(const HostPaths& paths);

}  // namespace startrail::machine
