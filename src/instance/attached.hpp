// A command inside an instance with this process's own input and output, as `trail exec` has it.
#pragma once

#include "base/error.hpp"
#include "instance/service.hpp"

namespace startrail::instance {

// Runs it to its end; returns its wait status. Through pipes of their own, so that nothing of this host's gets inside:
// no terminal to type into, no file that was opened for reading and writing. With ServiceStreams::terminal_of_ours it
// is a terminal inside, and this one is raw meanwhile. SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the command.
// Errors: those of Connection.
[[nodiscard]] Result<int> run_attached(const Connection& connection, Call call);

}  // namespace startrail::instance
