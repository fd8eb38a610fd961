#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "base/files.hpp"
#include "base/http.hpp"

namespace startrail::base {
namespace {

// What one request to loopback is answered with these header lines.
HttpResponse answered(const std::string& headers) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::jthread server([&] {
    const Fd connection(::accept(listener.get(), nullptr, nullptr));
    std::array<char, 4096> asked{};
    (void)::recv(connection.get(), asked.data(), asked.size(), 0);
    const std::string text =
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n" + headers + "\r\n";
    (void)::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
  });
  HttpClient client;
  const auto response = client.send({.url = fmt::format("http://127.0.0.1:{}/", ntohs(address.sin_port))});
  EXPECT_TRUE(response) << (response ? "" : to_text(response.error()));
  return response.value_or(HttpResponse{});
}

TEST(HttpHeaders, one_that_comes_again_is_the_next_of_a_list) {
  auto response = answered("WWW-Authenticate: Bearer realm=\"x\"\r\nwww-authenticate: Basic realm=\"y\"\r\n");
  EXPECT_EQ(response.headers["www-authenticate"], "Bearer realm=\"x\", Basic realm=\"y\"");
}

TEST(HttpHeaders, one_that_comes_again_unchanged_is_there_once) {
  auto response = answered("Docker-Content-Digest: a\r\nDocker-Content-Digest: a\r\n");
  EXPECT_EQ(response.headers["docker-content-digest"], "a");
}

}  // namespace
}  // namespace startrail::base
