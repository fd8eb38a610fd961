// What a host tells about itself that a training depends on, one fact a line; `diagnose` has the rules for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "machine/machine.hpp"

namespace startrail::machine {

struct Fact {
  std::string name;   // "driver.module"; words in lower case, from the general to the special
  std::string value;  // "535.183.01"; one line, "none" when there is none
  std::string read_from;
};

// Of a healthy host too: a rule decides what is a fault. What can't be read has no fact. Never fails; under 50 ms.
// `state_root` is where runs and images are kept.
[[nodiscard]] std::vector<Fact> host_facts(const HostPaths& paths, const Machine& machine,
                                           const std::filesystem::path& state_root);

// The kernel's newest messages (at most 1 MiB), from its ring buffer or /var/log/kern.log; "" when neither may be read.
[[nodiscard]] std::string kernel_messages(const HostPaths& paths);

}  // namespace startrail::machine
