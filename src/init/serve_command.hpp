// One command of an instance, from its caller's words to its end.
#pragma once

namespace startrail::init {

// Reads a ServiceCall from `connection`, starts its command in a session of its own, and tells how it ended. The body
// of a process that does nothing else; SIGTERM and SIGCHLD are blocked already. Returns its exit code.
[[nodiscard]] int serve_command(int connection);

}  // namespace startrail::init
