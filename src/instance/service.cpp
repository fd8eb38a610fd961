#include "instance/service.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace startrail::instance {
namespace {

using base::Fd;
using init::ServiceEventKind;

constexpr std::size_t k_most_streams = 3;

Error ended() {
  return base::error(ErrorCode::cancelled, "the instance ended");
}

void attach(msghdr& message, std::span<char> space, std::span<const int> descriptors) {
  message.msg_control = space.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
}

Result<void> send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno == EPIPE ? ended() : base::errno_error("cannot talk to the instance", errno));
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

std::string payload(const Call& call) {
  std::string text = call.directory + '\0';
  for (const auto& word : call.command) text += word + '\0';
  for (const auto& [key, value] : call.variables) text += key + "=" + value + '\0';
  return text;
}

Error nobody_listens() {
  return base::error(ErrorCode::not_found, "nothing answers inside the instance");
}

// Who is inside may put anything at this name: a link would lead root's calls to any socket of this host.
Result<Fd> open_socket_file(const fs::path& inside) {
  auto file = base::open_file(inside / init::k_service_socket, O_PATH | O_NOFOLLOW);
  if (!file) return fail(file.error().code == ErrorCode::not_found ? nobody_listens() : std::move(file).error());
  struct stat status{};
  if (::fstat(file->get(), &status) == 0 && S_ISSOCK(status.st_mode)) return file;
  return fail(ErrorCode::conflict, fmt::format("{} is no socket: it was replaced from inside the instance",
                                               (inside / init::k_service_socket).string()));
}

Fd received_descriptor(msghdr& message) {
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len >= CMSG_LEN(sizeof fd))
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return Fd(fd);
}

}  // namespace

Result<Connection> Connection::open(const fs::path& inside) {
  const Fd file = TRY(open_socket_file(inside));
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail(base::errno_error("cannot create a socket", errno));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // By descriptor: a socket's path may have 107 bytes only (unix(7)), and a state folder may lie deep.
  const std::string path = fmt::format("/proc/self/fd/{}", file.get());
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return Connection(std::move(socket));
  if (errno == ECONNREFUSED) return fail(nobody_listens());
  return fail(base::errno_error("cannot connect to the instance", errno));
}

Result<void> Connection::send(const Call& call, std::span<const int> streams) const {
  const std::string text = payload(call);
  if (text.size() > init::k_longest_call)
    return fail(ErrorCode::invalid_input, fmt::format("a command of {} bytes is too long", text.size()));
  init::ServiceCall header{.streams = call.streams,
                           .rows = static_cast<std::uint16_t>(call.rows),
                           .columns = static_cast<std::uint16_t>(call.columns),
                           .argument_count = static_cast<std::uint32_t>(call.command.size()),
                           .variable_count = static_cast<std::uint32_t>(call.variables.size()),
                           .size = static_cast<std::uint32_t>(text.size())};
  iovec part{.iov_base = &header, .iov_len = sizeof header};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(k_most_streams * sizeof(int))> space{};
  if (!streams.empty()) attach(message, space, streams);
  if (::sendmsg(m_socket.get(), &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof header))
    return fail(base::errno_error("cannot talk to the instance", errno));
  return send_all(m_socket.get(), text);
}

void Connection::signal(int signal) const {
  const init::ServiceSignal request{.signal = signal};
  ::send(m_socket.get(), &request, sizeof request, MSG_NOSIGNAL);
}

Result<Event> Connection::receive() const {
  init::ServiceEvent event;
  iovec part{.iov_base = &event, .iov_len = sizeof event};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  ssize_t count = 0;
  while ((count = ::recvmsg(m_socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_WAITALL)) < 0 && errno == EINTR) {
  }
  if (count != static_cast<ssize_t>(sizeof event)) return fail(ended());
  return Event{.kind = event.kind, .value = event.value, .terminal = received_descriptor(message)};
}

Error refusal(int reason) {
  Error error = base::errno_error("the instance could not start the command", reason);
  if (reason == EPROTO)
    error.with_hint("another version of trail started it: take it `trail down` and `trail up` again");
  return error;
}

Result<int> call_and_wait(const Connection& connection, const Call& call, std::span<const int> streams) {
  TRY(connection.send(call, streams));
  for (;;) {
    const Event event = TRY(connection.receive());
    if (event.kind == ServiceEventKind::ended) return event.value;
    if (event.kind == ServiceEventKind::refused) return fail(refusal(event.value));
  }
}

}  // namespace startrail::instance
