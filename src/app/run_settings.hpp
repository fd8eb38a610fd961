// What users write for a run's limits, mounts, environment and GPUs, read into values.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.hpp"
#include "machine/machine.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::app {

// "SRC:DST", "SRC:DST:ro", "SRC:DST:rw"; a relative SRC is taken from the caller's folder.
// Errors: usage (form, relative or reserved DST), not_found (SRC), each with the text as given.
[[nodiscard]] Result<sandbox::Mount> parse_mount(std::string_view text);

// "K=V" sets; "K" takes the caller's value.
// Errors: usage (no name, no value, a TRAIL_ name that the run itself sets).
[[nodiscard]] Result<void> add_environment(base::Environment& environment, std::string_view text,
                                           const base::Environment& caller);
// Lines of "K=V" or "K"; blank lines and lines starting with '#' are skipped; values are taken as written.
// Errors: not_found, invalid_input with the line's number.
[[nodiscard]] Result<void> add_environment_file(base::Environment& environment, const std::filesystem::path& file,
                                                const base::Environment& caller);

// "6GiB"; at least `least`. Errors: usage, naming `option`; so do those below.
[[nodiscard]] Result<Bytes> parse_limit(std::string_view option, std::string_view text, Bytes least);
[[nodiscard]] Result<double> parse_cpus(std::string_view text);
[[nodiscard]] Result<int> parse_pids(std::string_view text);
[[nodiscard]] Result<int> parse_grace(std::string_view text);
[[nodiscard]] Result<sandbox::Network> parse_network(std::string_view text);

struct GpuRequest {
  enum class Kind { all, none, count, list };
  Kind kind = Kind::all;
  int count = 0;
  std::vector<int> indexes;
};
// "all", "none", "2" (any two), "0,1" or "device=1" (exactly these). Errors: usage.
[[nodiscard]] Result<GpuRequest> parse_gpus(std::string_view text);
// Indexes on this machine; of a count, those without compute processes come first.
// Errors: refused (more than there are, or no such index), naming what the machine has.
[[nodiscard]] Result<std::vector<int>> pick_gpus(const GpuRequest& request, const machine::Machine& machine,
                                                 const machine::HostPaths& host);

}  // namespace startrail::app
