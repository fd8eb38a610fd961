// HTTP(S) over libcurl: system CA bundle (or $SSL_CERT_FILE), proxies from the environment, netrc for credentials.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace startrail::base {

// A part of a file, sent as it lies there.
struct HttpFile {
  std::filesystem::path file;
  std::uint64_t offset = 0, length = 0;
};

enum class Netrc { use, ignore };

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers = {};  // "Accept: application/json"; Authorization goes to the url's own host only
  std::chrono::seconds timeout{60};       // of the whole exchange; 0: as long as bytes move
  Bytes limit{256ULL << 20U};             // a larger body is refused
  std::string method = "GET";
  std::string body = {};                        // sent unless the method is GET or HEAD
  std::optional<HttpFile> file = {};            // sent instead of `body`
  std::function<void(std::uint64_t)> on_bytes;  // so many more bytes of the body are sent; any thread
  Netrc netrc = Netrc::use;
};

struct HttpResponse {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case; one that came again: joined by ", "
  std::string body;
  std::string final_url;  // after redirects
};

// GET into memory; follows redirects; retries connection failures, 429 and 5xx three times.
// A 4xx is a response, not an error. Errors: network (names the host, never credentials).
[[nodiscard]] Result<HttpResponse> http_get(const HttpRequest& request);

// Connections that are kept and used again. Any number of threads may send; each has a connection of its own meanwhile.
class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // One attempt, any method; follows redirects, from https to https only. Whatever the server answers is a response.
  // Errors: network (worth another try), refused (another try would change nothing: certificate, address, size),
  // not_found or permission (of the file to send).
  [[nodiscard]] Result<HttpResponse> send(const HttpRequest& request);

 private:
  struct Idle;
  std::unique_ptr<Idle> m_idle;
};

// What Retry-After (RFC 9110, 10.2.3) asks for, in seconds; a date is not read. At most `longest`.
[[nodiscard]] std::optional<std::chrono::seconds> retry_after(const HttpResponse& response,
                                                              std::chrono::seconds longest);

// The certificates that $SSL_CERT_FILE names, as other programs take them; nullopt: those of the system.
[[nodiscard]] std::optional<std::string> certificate_file();

// The URL without user:password@ and query, for messages and records.
[[nodiscard]] std::string without_credentials(std::string_view url);
// The host part of a URL, for messages.
[[nodiscard]] std::string host_of(std::string_view url);

}  // namespace startrail::base
