#include "init/serve.hpp"

#include <dirent.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "init/serve_command.hpp"
#include "init/service.hpp"

namespace startrail::init {
namespace {

constexpr int k_waiting_callers = 64;
constexpr useconds_t k_look_again_us = 20'000;

int fail_to_serve(const char* step) {
  dprintf(STDERR_FILENO, "trail: cannot serve this instance: %s: %s\n", step, strerror(errno));
  return 1;
}

int listen_for_callers() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", k_service_folder, k_service_socket);
  ::unlink(address.sun_path);  // of an instance that was killed
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const mode_t before = ::umask(0077);
  const bool bound = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::umask(before);
  return bound && ::listen(socket, k_waiting_callers) == 0 ? socket : -1;
}

// The folder is its owner's alone already. Root outside has no other number in here, and nobody inside is root.
bool may_call(int connection) {
  ucred caller{};
  socklen_t size = sizeof caller;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &caller, &size) != 0) return false;
  return caller.uid == 0 || caller.uid == ::geteuid();
}

void serve(int listener) {
  const int connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) return;
  if (may_call(connection) && ::fork() == 0) {
    ::close(listener);
    ::_exit(serve_command(connection));
  }
  ::close(connection);
}

// How sshd_config(5) can hold a variable.
enum class Quoting {
  plain,       // between quotes as it is
  after_hash,  // before OpenSSH 8.7 a line ended at its first #, wherever that was
  escaped,     // before 8.7 there was no way to write a quote or a backslash
  impossible,
};

Quoting quoting_of(const char* variable) {
  for (const char* own : {"PWD=", "OLDPWD=", "SHLVL=", "TERM=", "USER=", "LOGNAME=", "_="})
    if (std::strncmp(variable, own, std::strlen(own)) == 0) return Quoting::impossible;
  Quoting quoting = Quoting::plain;
  for (const char* at = variable; *at != '\0'; ++at) {
    if (static_cast<unsigned char>(*at) < ' ') return Quoting::impossible;
    if (*at == '"' || *at == '\\') quoting = Quoting::escaped;
    if (*at == '#' && quoting == Quoting::plain) quoting = Quoting::after_hash;
  }
  return quoting;
}

void write_quoted(FILE* file, const char* variable) {
  std::fputs(" \"", file);
  for (const char* at = variable; *at != '\0'; ++at) {
    if (*at == '"' || *at == '\\') std::fputc('\\', file);
    std::fputc(*at, file);
  }
  std::fputc('"', file);
}

// sshd gives its sessions an environment of their own: these variables are put into it. Only the first SetEnv counts,
// so it is one line. What an old sshd can't read stands behind a # of ours, where it doesn't read on.
bool tell_variables() {
  char path[256];
  std::snprintf(path, sizeof path, "%s/%s", k_service_folder, k_service_variables);
  ::unlink(path);
  FILE* file = std::fopen(path, "wxe");
  if (file == nullptr) return false;
  std::fputs("SetEnv", file);
  for (const Quoting quoting : {Quoting::plain, Quoting::after_hash, Quoting::escaped}) {
    if (quoting == Quoting::escaped) write_quoted(file, "TRAIL_SSH=#");
    for (char** variable = environ; *variable != nullptr; ++variable)
      if (quoting_of(*variable) == quoting) write_quoted(file, *variable);
  }
  std::fputs("\n", file);
  return std::fclose(file) == 0;
}

bool is_number(const char* text) {
  return *text != '\0' && text[std::strspn(text, "0123456789")] == '\0';
}

// Besides PID 1 and this process. Zombies of PID 1 are gone in a moment.
bool anybody_is_left() {
  DIR* processes = ::opendir("/proc");
  if (processes == nullptr) return false;
  bool found = false;
  while (const dirent* entry = ::readdir(processes)) {
    if (!is_number(entry->d_name)) continue;
    const int pid = std::atoi(entry->d_name);
    found = found || (pid != 1 && pid != ::getpid());
  }
  ::closedir(processes);
  return found;
}

// A training that somebody left running saves its state now; how long that may take is the supervisor's to bound.
int end_everything() {
  ::kill(-1, SIGTERM);
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!anybody_is_left()) return 0;
    ::usleep(k_look_again_us);
  }
}

}  // namespace

int serve_instance() {
  sigset_t handled;
  sigemptyset(&handled);
  sigaddset(&handled, SIGTERM);
  sigaddset(&handled, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  const int signals = ::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  if (!tell_variables()) return fail_to_serve("its variables");
  const int listener = listen_for_callers();
  if (listener < 0 || signals < 0) return fail_to_serve(listener < 0 ? "its socket" : "signals");
  for (;;) {
    pollfd fds[2] = {{.fd = listener, .events = POLLIN, .revents = 0}, {.fd = signals, .events = POLLIN, .revents = 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return fail_to_serve("waiting");
    signalfd_siginfo info;
    while (::read(signals, &info, sizeof info) == sizeof info)
      if (info.ssi_signo == SIGTERM) return end_everything();
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (fds[0].revents != 0) serve(listener);
  }
}

}  // namespace startrail::init
