// HTTP(S) over libcurl: system CA bundle, proxies from the environment, netrc for credentials.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace startrail::base {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  // "Accept: application/json"
  std::chrono::seconds timeout{60};
  Bytes limit{256ULL << 20U};  // a larger body is refused
};

struct HttpResponse {
  long status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string final_url;  // after redirects
};

// GET into memory; follows redirects; retries connection failures, 429 and 5xx three times.
// A 4xx is a response, not an error. Errors: network (names the host, never credentials).
[[nodiscard]] Result<HttpResponse> http_get(const HttpRequest& request);

// The URL without user:password@ and query, for messages and records.
[[nodiscard]] std::string without_credentials(std::string_view url);
// The host part of a URL, for messages.
[[nodiscard]] std::string host_of(std::string_view url);

}  // namespace startrail::base
