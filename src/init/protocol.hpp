// What a supervisor and the init inside its container say to each other, over one SOCK_SEQPACKET
// socket: init's end is descriptor `k_socket`. Both ends come from the same build, so plain structs travel.
// When the supervisor's end closes, init ends, and with it everything in the PID namespace.
#pragma once

#include <cstdint>

#include <linux/filter.h>

namespace startrail::init {

inline constexpr int k_socket = 3;
inline constexpr std::uint32_t k_protocol = 2;
inline constexpr unsigned k_longest_filter = 512;
inline constexpr unsigned k_most_cpus = 1024;

enum class UserNamespace : std::uint32_t {
  keep,  // the command keeps init's credentials
  own,   // the command gets a user namespace in which `uid` and `gid` stand for init's
};

enum class Confinement : std::uint32_t {
  container,  // no capability is left to the command, and no socket of the host's abstract namespace
  none,       // the command has all of init's rights
};

// The first message to init. Command, environment and directory are init's own.
struct StartRequest {
  std::uint32_t protocol = k_protocol;
  UserNamespace user_namespace = UserNamespace::keep;
  Confinement confinement = Confinement::container;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t process_limit = 0;            // RLIMIT_NPROC; 0: as it is
  std::uint64_t cpus[k_most_cpus / 64] = {};  // bit mask for sched_setaffinity(2); all zero: as it is
  std::uint32_t filter_length = 0;            // seccomp instructions; only these many are sent
  sock_filter filter[k_longest_filter] = {};
};

// Every later message to init: a signal for the command's process group. 0 says that the supervisor has adopted init:
// before that init does not end, because the runtime, its parent until it exits itself, would reap it.
struct SignalRequest {
  std::int32_t signal = 0;
};

enum class ReportKind : std::uint32_t {
  cannot_confine,  // a step before exec failed: `value` is the errno, `step` names it; the command never ran
  ended,           // `value` is the command's wait(2) status
  survivor,        // `value` is the pid of a process that the command left and init may not kill
};

// Messages from init.
struct Report {
  ReportKind kind = ReportKind::ended;
  std::int32_t value = 0;
  char step[40] = {};
};

}  // namespace startrail::init
