// A small HTTP/1.1 server on loopback that misbehaves on demand.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace startrail::image::testing {

struct ServedRequest {
  std::string path;
  bool ranged = false;
  std::uint64_t begin = 0, end = 0;  // of what is asked for
  int number = 0;                    // of this request, from 1, over all paths
};

// What to do with one request.
struct Behaviour {
  int status = 0;                           // 0: the right one
  std::uint64_t send_at_most = UINT64_MAX;  // then the connection is cut
  bool ignore_range = false;
  bool stall = false;  // after `send_at_most`, silence instead of a cut
  bool no_length = false;
  bool flip = false;                   // damages one byte
  std::chrono::microseconds pause{0};  // after every 64 KiB
};

class TestServer {
 public:
  using Decide = std::function<Behaviour(const ServedRequest&)>;
  explicit TestServer(Decide decide = {}) : m_decide(std::move(decide)) {
    m_socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    ::bind(m_socket, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(m_socket, 64);
    socklen_t length = sizeof address;
    ::getsockname(m_socket, reinterpret_cast<sockaddr*>(&address), &length);
    m_port = ntohs(address.sin_port);
    m_thread = std::thread([this] { accept_all(); });
  }
  ~TestServer() {
    m_stop = true;
    ::shutdown(m_socket, SHUT_RDWR);
    m_thread.join();
    for (auto& thread : m_connections) thread.join();
    ::close(m_socket);
  }

  void put(const std::string& path, std::string content) {
    const std::scoped_lock lock(m_mutex);
    m_files[path] = std::move(content);
  }
  [[nodiscard]] std::string url(const std::string& path) const {
    return fmt::format("http://127.0.0.1:{}{}", m_port, path);
  }
  [[nodiscard]] std::uint64_t bytes_sent() const { return m_sent; }
  [[nodiscard]] std::vector<ServedRequest> requests() const {
    const std::scoped_lock lock(m_mutex);
    return m_requests;
  }

 private:
  void accept_all() {
    while (!m_stop) {
      const int connection = ::accept4(m_socket, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      m_connections.emplace_back([this, connection] {
        while (!m_stop && serve_one(connection)) {
        }
        ::close(connection);
      });
    }
  }

  // False when the connection shall be closed.
  bool serve_one(int connection) {
    std::string head;
    while (head.find("\r\n\r\n") == std::string::npos) {
      pollfd ready{.fd = connection, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 50) == 0) {
        if (m_stop) return false;
        continue;
      }
      char buffer[4096];
      const ssize_t count = ::recv(connection, buffer, sizeof buffer, 0);
      if (count <= 0) return false;
      head.append(buffer, static_cast<std::size_t>(count));
    }
    ServedRequest request{.path = head.substr(4, head.find(' ', 4) - 4)};
    const std::string* content = nullptr;
    {
      const std::scoped_lock lock(m_mutex);
      const auto found = m_files.find(request.path);
      if (found != m_files.end()) content = &found->second;
    }
    request.end = content != nullptr ? content->size() : 0;
    if (const auto at = head.find("Range: bytes="); at != std::string::npos) {
      request.ranged = true;
      char* rest = nullptr;
      request.begin = std::strtoull(head.c_str() + at + 13, &rest, 10);
      request.end = std::min<std::uint64_t>(request.end, std::strtoull(rest + 1, nullptr, 10) + 1);
    }
    {
      const std::scoped_lock lock(m_mutex);
      request.number = static_cast<int>(m_requests.size()) + 1;
      m_requests.push_back(request);
    }
    return answer(connection, request, content, m_decide ? m_decide(request) : Behaviour());
  }

  bool answer(int connection, ServedRequest request, const std::string* content, const Behaviour& behaviour) {
    if (content == nullptr || behaviour.status >= 400) {
      const std::string text =
          fmt::format("HTTP/1.1 {} No\r\nContent-Length: 3\r\n\r\nno\n", content == nullptr ? 404 : behaviour.status);
      return send(connection, text);
    }
    const bool partial = request.ranged && !behaviour.ignore_range;
    if (!partial) {
      request.begin = 0;
      request.end = content->size();
    }
    std::string head = partial ? fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n",
                                             request.begin, request.end - 1, content->size())
                               : "HTTP/1.1 200 OK\r\n";
    if (behaviour.no_length)
      head += "Connection: close\r\n\r\n";
    else
      head += fmt::format("Content-Length: {}\r\n\r\n", request.end - request.begin);
    if (!send(connection, head)) return false;
    std::string body = content->substr(request.begin, std::min(request.end - request.begin, behaviour.send_at_most));
    if (behaviour.flip) body[body.size() / 2] = static_cast<char>(body[body.size() / 2] ^ 1);
    for (std::size_t at = 0; at < body.size(); at += 65536) {
      const std::string piece = body.substr(at, 65536);
      if (!send(connection, piece)) return false;
      m_sent += piece.size();
      if (behaviour.pause.count() > 0) std::this_thread::sleep_for(behaviour.pause);
    }
    while (behaviour.stall && !m_stop) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return !behaviour.no_length && body.size() == request.end - request.begin;
  }

  bool send(int connection, std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  Decide m_decide;
  std::map<std::string, std::string> m_files;
  int m_socket = -1;
  std::uint16_t m_port = 0;
  std::atomic<bool> m_stop{false};
  std::atomic<std::uint64_t> m_sent{0};
  mutable std::mutex m_mutex;
  std::vector<ServedRequest> m_requests;
  std::vector<std::thread> m_connections;  // only the accepting thread adds
  std::thread m_thread;
};

}  // namespace startrail::image::testing
