#include "base/http.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

namespace startrail::base {
namespace {

struct EasyDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

struct Receiver {
  HttpResponse response;
  std::uint64_t limit = 0;
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& receiver = *static_cast<Receiver*>(user);
  if (receiver.response.body.size() + size * count > receiver.limit) return 0;
  receiver.response.body.append(data, size * count);
  return size * count;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return std::string(text);
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& headers = static_cast<Receiver*>(user)->response.headers;
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) headers.clear();
  if (const auto colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    headers[name] = trimmed(line.substr(colon + 1));
  }
  return size * count;
}

bool worth_a_retry(CURLcode code, long status) {
  if (code == CURLE_OK) return status == 429 || status >= 500;
  return code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL && code != CURLE_WRITE_ERROR &&
         code != CURLE_PEER_FAILED_VERIFICATION;
}

struct Attempt {
  CURLcode code;
  HttpResponse response;
};

Attempt perform(const HttpRequest& request) {
  static std::once_flag s_initialised;
  std::call_once(s_initialised, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, EasyDeleter> handle(curl_easy_init());
  std::unique_ptr<curl_slist, ListDeleter> headers;
  for (const auto& header : request.headers) headers.reset(curl_slist_append(headers.release(), header.c_str()));
  Receiver receiver{.response = {}, .limit = request.limit.count};
  CURL* curl = handle.get();
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_NETRC, CURL_NETRC_OPTIONAL);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "startrail");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 15L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(request.timeout.count()));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &receiver);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &receiver);
  const CURLcode code = curl_easy_perform(curl);
  char* final_url = nullptr;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &receiver.response.status);
  curl_easy_getinfo(curl, CURLINFO_EFFECTIVE_URL, &final_url);
  if (final_url != nullptr) receiver.response.final_url = final_url;
  return {code, std::move(receiver.response)};
}

}  // namespace

Result<HttpResponse> http_get(const HttpRequest& request) {
  Attempt attempt{};
  for (int tries = 0; tries < 4; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(250 << tries));
    attempt = perform(request);
    if (!worth_a_retry(attempt.code, attempt.response.status)) break;
  }
  if (attempt.code == CURLE_WRITE_ERROR && attempt.response.body.size() <= request.limit.count)
    return fail(ErrorCode::network,
                fmt::format("{} answered with more than {}", host_of(request.url), to_text(request.limit)));
  if (attempt.code != CURLE_OK)
    return fail(error(ErrorCode::network,
                      fmt::format("cannot reach {}: {}", host_of(request.url), curl_easy_strerror(attempt.code)))
                    .with_context("while fetching " + without_credentials(request.url))
                    .with_hint("check the network, and https_proxy if this machine needs one"));
  if (attempt.response.status >= 500)
    return fail(error(ErrorCode::network, fmt::format("{} answered {}", host_of(request.url), attempt.response.status))
                    .with_context("while fetching " + without_credentials(request.url)));
  return std::move(attempt.response);
}

std::string without_credentials(std::string_view url) {
  std::string text(url.substr(0, url.find('?')));
  const auto scheme = text.find("://");
  if (scheme == std::string::npos) return text;
  const auto path = text.find('/', scheme + 3);
  const auto at = text.substr(0, path).rfind('@');
  if (at != std::string::npos && at > scheme) text.erase(scheme + 3, at - scheme - 2);
  return text;
}

std::string host_of(std::string_view url) {
  const std::string text = without_credentials(url);
  const auto scheme = text.find("://");
  const auto start = scheme == std::string::npos ? 0 : scheme + 3;
  return text.substr(start, text.find('/', start) - start);
}

}  // namespace startrail::base
