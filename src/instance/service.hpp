// A client of the service inside an instance: one connection is one command.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "init/service.hpp"

namespace startrail::instance {

struct Call {
  std::vector<std::string> command;
  base::Environment variables;  // over those that the instance has
  std::string directory;        // "": where the instance itself runs
  init::ServiceStreams streams = init::ServiceStreams::all;
  unsigned rows = 0, columns = 0;
};

struct Event {
  init::ServiceEventKind kind = init::ServiceEventKind::ended;
  int value = 0;
  base::Fd terminal;
};

class Connection {
 public:
  // `inside` is the folder with the socket. Errors: not_found (nobody listens there), permission.
  [[nodiscard]] static Result<Connection> open(const std::filesystem::path& inside);
  // `streams` as the call says. Errors: invalid_input (longer than one exec can be), internal.
  [[nodiscard]] Result<void> send(const Call& call, std::span<const int> streams) const;
  void signal(int signal) const;
  // Waits for the next one. Errors: cancelled (the instance has ended).
  [[nodiscard]] Result<Event> receive() const;
  [[nodiscard]] int descriptor() const { return m_socket.get(); }

 private:
  explicit Connection(base::Fd socket) : m_socket(std::move(socket)) {}
  base::Fd m_socket;
};

// What a `refused` event means; its value is an errno.
[[nodiscard]] Error refusal(int reason);

// Starts the command with these streams and waits for its end; returns its wait status. Errors: as those above, and
// what the service refused.
[[nodiscard]] Result<int> call_and_wait(const Connection& connection, const Call& call, std::span<const int> streams);

}  // namespace startrail::instance
