// Child processes, and the identity of processes across time.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/units.hpp"

namespace startrail::base {

using Environment = std::map<std::string, std::string>;

[[nodiscard]] Environment current_environment();
// Why a program can't be given this variable, as "`A B` is no name of a variable"; "" when it can. Names may hold
// neither
// `=` nor white space, and a NUL would end name or value (environ(7)).
[[nodiscard]] std::string variable_fault(std::string_view name, std::string_view value);
[[nodiscard]] std::optional<std::string> environment_variable(const char* name);

struct Command {
  std::vector<std::string> argv;           // argv[0] is looked up on PATH
  std::optional<Environment> environment;  // nullopt: inherit
  std::optional<std::filesystem::path> directory;
  std::string input;                                 // given on stdin, then closed
  std::optional<std::chrono::milliseconds> timeout;  // then SIGKILL to its process group
  // Of each stream only about the last so many bytes are kept, whatever arrives. Unset: all.
  std::optional<Bytes> output_limit;
  // Called with each complete line of stderr as it arrives (without '\n'; a very long one in parts); it's collected as
  // well.
  std::function<void(std::string_view)> on_error_line;
};

struct ProcessResult {
  int exit_code = 0;  // of a process that exited
  int signal = 0;     // nonzero when a signal ended it
  bool timed_out = false;
  std::string output;
  std::string errors;
  [[nodiscard]] bool succeeded() const { return exit_code == 0 && signal == 0; }
};

// Runs to the end and collects stdout and stderr. A nonzero exit is a result, not an error.
// The child gets its own process group and dies with the calling thread (PDEATHSIG).
// Errors: not_found (no such program), permission, internal.
[[nodiscard]] Result<ProcessResult> run_process(const Command& command);

// Absolute path of `name` on PATH plus /usr/sbin and /sbin (where runc and friends live on Debian).
[[nodiscard]] std::optional<std::filesystem::path> find_program(std::string_view name);

// This executable, to be started again. "/proc/self/exe" when its file was replaced or removed since the start (an
// upgrade, a new build): the child of a fork still reaches the old one under that name.
[[nodiscard]] std::filesystem::path own_program();

// Where a pid means something: one machine, and one PID namespace of it (a folder may be shared by more).
struct ProcessPlace {
  std::string machine;                   // /etc/machine-id; "" where there is none
  std::string host;                      // gethostname(2): machines cloned from one image share the former
  unsigned long long pid_namespace = 0;  // inode of /proc/self/ns/pid
  bool operator==(const ProcessPlace&) const = default;
};
[[nodiscard]] ProcessPlace process_place();

// A process that can be told from a later one with the same pid, also after a reboot:
// /proc/sys/kernel/random/boot_id, pid, and field 22 (starttime) of /proc/PID/stat.
struct ProcessIdentity {
  std::string boot_id;
  pid_t pid = 0;
  unsigned long long start_ticks = 0;
  ProcessPlace place;  // without a host: as it was written before places were
  bool operator==(const ProcessIdentity&) const = default;
};
[[nodiscard]] std::string boot_id();
[[nodiscard]] Result<ProcessIdentity> process_identity(pid_t pid);
// Whether this process can tell anything about it: its pid means nothing on another machine or in another PID
// namespace.
[[nodiscard]] bool is_of_here(const ProcessIdentity& identity);
// Of here, same boot, same pid, same start time, and not a zombie.
[[nodiscard]] bool is_alive(const ProcessIdentity& identity);

// "killed by signal 11 (Segmentation fault)" without the number for the common ones: see sigabbrev.
[[nodiscard]] std::string signal_name(int signal);  // "SIGSEGV"

// A word as a POSIX shell would need it: quoted only when necessary.
[[nodiscard]] std::string shell_quote(std::string_view word);
[[nodiscard]] std::string shell_join(const std::vector<std::string>& words);
// Splits as a POSIX shell does (quotes, backslashes; no expansion). Errors: invalid_input on an open quote.
[[nodiscard]] Result<std::vector<std::string>> shell_split(std::string_view line);

}  // namespace startrail::base
