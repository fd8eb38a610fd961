// The service of an instance: starts commands for whoever may connect to its socket.
#pragma once

namespace startrail::init {

// Listens on k_service_folder/k_service_socket and serves until SIGTERM; then everything inside gets SIGTERM, and this
// returns once nothing is left. What it starts has this process's restrictions, so nothing need be repeated.
// Returns the exit code.
[[nodiscard]] int serve_instance();

}  // namespace startrail::init
