// What a client says to the service inside an instance (`/.trail/init --serve-instance`), and the other way round, over
// one stream socket per command. Client and service come from one build, so plain structs travel; an instance that was
// started by another one is told so by `protocol`.
#pragma once

#include <cstdint>

namespace startrail::init {

// The word that makes trail-init the service instead of PID 1; no program is called so.
inline constexpr const char* k_serve = "--serve-instance";
// The folder that holds the socket, inside, and the socket's name in it.
inline constexpr const char* k_service_folder = "/run/startrail";
inline constexpr const char* k_service_socket = "service";
// Beside it, written when the service begins: the instance's variables as one SetEnv line of sshd_config(5).
inline constexpr const char* k_service_variables = "sshd_variables";
inline constexpr std::uint32_t k_service_protocol = 1;
// Bound of arguments and environment together, as of one exec (ARG_MAX is 2 MiB on Linux).
inline constexpr std::uint32_t k_longest_call = 2U << 20U;

enum class ServiceStreams : std::uint32_t {
  all,               // three descriptors come with the call: input, output, errors
  without_errors,    // two; errors go to the instance's log
  terminal_of_ours,  // none: a terminal is opened inside, and its other end sent back
};

// The first message to the service, with its descriptors (SCM_RIGHTS); `size` bytes follow: the folder, the arguments,
// then the variables to set as K=V, each ended by a NUL.
struct ServiceCall {
  std::uint32_t protocol = k_service_protocol;
  ServiceStreams streams = ServiceStreams::all;
  std::uint16_t rows = 0, columns = 0;  // of the terminal
  std::uint32_t argument_count = 0;
  std::uint32_t variable_count = 0;
  std::uint32_t size = 0;
};

// Every later message to the service: a signal for the command's process group. When the client's end closes before the
// command has ended, the group is hung up.
struct ServiceSignal {
  std::int32_t signal = 0;
};

enum class ServiceEventKind : std::uint32_t {
  terminal,  // the other end of the terminal comes with it
  ended,     // `value` is the command's wait(2) status
  refused,   // `value` is an errno: the call could not be understood, or no process made
};

struct ServiceEvent {
  ServiceEventKind kind = ServiceEventKind::ended;
  std::int32_t value = 0;
};

}  // namespace startrail::init
