#include "base/http.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "base/files.hpp"

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
    const std::string value = trimmed(line.substr(colon + 1));
    // One that comes again is a list's next element (RFC 9110, 5.3): WWW-Authenticate for each way to log in.
    const auto [header, is_new] = headers.try_emplace(std::move(name), value);
    if (!is_new && header->second != value) header->second += ", " + value;
  }
  return size * count;
}

bool is_worth_a_retry(CURLcode code) {
  return code != CURLE_URL_MALFORMAT && code != CURLE_UNSUPPORTED_PROTOCOL && code != CURLE_WRITE_ERROR &&
         code != CURLE_PEER_FAILED_VERIFICATION && code != CURLE_TOO_MANY_REDIRECTS;
}

bool is_worth_a_retry(CURLcode code, long status) {
  return code == CURLE_OK ? status == 429 || status >= 500 : is_worth_a_retry(code);
}

struct Attempt {
  CURLcode code;
  HttpResponse response;
  std::string reason;  // libcurl's own words for what went wrong, where it has some
};

// The body on its way out: text, or a part of an open file.
struct Sender {
  const HttpRequest& request;
  Fd file = {};
  std::uint64_t position = 0;

  [[nodiscard]] std::uint64_t length() const { return request.file ? request.file->length : request.body.size(); }
};

std::size_t on_read(char* into, std::size_t size, std::size_t count, void* user) {
  auto& sender = *static_cast<Sender*>(user);
  const std::size_t wanted = std::min<std::uint64_t>(size * count, sender.length() - sender.position);
  std::size_t got = wanted;
  if (sender.request.file) {
    const ssize_t read =
        ::pread(sender.file.get(), into, wanted, static_cast<off_t>(sender.request.file->offset + sender.position));
    if (read < 0 || (read == 0 && wanted > 0)) return CURL_READFUNC_ABORT;
    got = static_cast<std::size_t>(read);
  } else {
    sender.request.body.copy(into, wanted, sender.position);
  }
  sender.position += got;
  if (sender.request.on_bytes && got > 0) sender.request.on_bytes(got);
  return got;
}

// A redirect that keeps the method has the body sent again.
int on_seek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Sender*>(user)->position = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

void set_body(CURL* curl, Sender& sender) {
  curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
  curl_easy_setopt(curl, CURLOPT_READDATA, &sender);
  curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
  curl_easy_setopt(curl, CURLOPT_SEEKDATA, &sender);
  curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(sender.length()));
  curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
}

void set_method(CURL* curl, const HttpRequest& request, Sender& sender) {
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET") {
    set_body(curl, sender);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void set_connection(CURL* curl, const HttpRequest& request) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, request.url.starts_with("https:") ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_NETRC, request.netrc == Netrc::use ? CURL_NETRC_OPTIONAL : CURL_NETRC_IGNORED);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "startrail");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 15L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, static_cast<long>(request.timeout.count()));
  // Where no time is set: a server may think about a large upload for a while, but not for ever.
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 300L);
  if (const auto certificates = certificate_file()) curl_easy_setopt(curl, CURLOPT_CAINFO, certificates->c_str());
}

Attempt perform(CURL* curl, const HttpRequest& request, Sender& sender) {
  std::unique_ptr<curl_slist, ListDeleter> headers;
  for (const auto& header : request.headers) headers.reset(curl_slist_append(headers.release(), header.c_str()));
  Receiver receiver{.response = {}, .limit = request.limit.count};
  std::array<char, CURL_ERROR_SIZE> reason{};
  set_connection(curl, request);
  set_method(curl, request, sender);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason.data());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &receiver);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &receiver);
  const CURLcode code = curl_easy_perform(curl);
  char* final_url = nullptr;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &receiver.response.status);
  curl_easy_getinfo(curl, CURLINFO_EFFECTIVE_URL, &final_url);
  if (final_url != nullptr) receiver.response.final_url = final_url;
  return {code, std::move(receiver.response), reason.data()};
}

void start_curl() {
  static std::once_flag s_initialised;
  std::call_once(s_initialised, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

Error transport_error(const HttpRequest& request, const Attempt& attempt) {
  const std::string host = host_of(request.url);
  if (attempt.code == CURLE_WRITE_ERROR)
    return error(ErrorCode::refused, fmt::format("{} answered with more than {}", host, to_text(request.limit)));
  const bool certificate = attempt.code == CURLE_PEER_FAILED_VERIFICATION;
  const std::string why = certificate || attempt.code == CURLE_SSL_CONNECT_ERROR
                              ? fmt::format("{} ({})", curl_easy_strerror(attempt.code), attempt.reason)
                              : curl_easy_strerror(attempt.code);
  Error reason = error(is_worth_a_retry(attempt.code) ? ErrorCode::network : ErrorCode::refused,
                       fmt::format("cannot reach {}: {}", host, why));
  reason.with_context(fmt::format("while {} {}", request.method == "GET" ? "fetching" : "asking for",
                                  without_credentials(request.url)));
  return std::move(reason).with_hint(certificate ? "SSL_CERT_FILE=FILE names the certificates to trust"
                                                 : "check the network, and https_proxy if this machine needs one");
}

}  // namespace

struct HttpClient::Idle {
  std::mutex mutex;
  std::vector<std::unique_ptr<CURL, EasyDeleter>> handles;
};

HttpClient::HttpClient() : m_idle(std::make_unique<Idle>()) {
  start_curl();
}
HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::send(const HttpRequest& request) {
  Sender sender{.request = request};
  if (request.file) sender.file = TRY(open_file(request.file->file, O_RDONLY));
  std::unique_ptr<CURL, EasyDeleter> handle;
  {
    const std::scoped_lock lock(m_idle->mutex);
    if (!m_idle->handles.empty()) {
      handle = std::move(m_idle->handles.back());
      m_idle->handles.pop_back();
    }
  }
  if (handle)
    curl_easy_reset(handle.get());
  else
    handle.reset(curl_easy_init());
  Attempt attempt = perform(handle.get(), request, sender);
  // A server that has refused a body may close before all of it is sent: what it said counts.
  const bool has_answer = attempt.response.status >= 400 && attempt.code != CURLE_WRITE_ERROR;
  if (attempt.code != CURLE_OK && !has_answer) return fail(transport_error(request, attempt));
  const std::scoped_lock lock(m_idle->mutex);
  m_idle->handles.push_back(std::move(handle));
  return std::move(attempt.response);
}

std::optional<std::chrono::seconds> retry_after(const HttpResponse& response, std::chrono::seconds longest) {
  const auto header = response.headers.find("retry-after");
  if (header == response.headers.end()) return std::nullopt;
  const std::string& text = header->second;
  std::uint64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::min(longest, std::chrono::seconds(std::min<std::uint64_t>(count, 86'400)));
}

std::optional<std::string> certificate_file() {
  const char* named = std::getenv("SSL_CERT_FILE");
  return named == nullptr || *named == '\0' ? std::nullopt : std::optional<std::string>(named);
}

Result<HttpResponse> http_get(const HttpRequest& request) {
  start_curl();
  const std::unique_ptr<CURL, EasyDeleter> handle(curl_easy_init());
  Attempt attempt{};
  for (int tries = 0; tries < 4; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(250 << tries));
    Sender sender{.request = request};
    attempt = perform(handle.get(), request, sender);
    if (!is_worth_a_retry(attempt.code, attempt.response.status)) break;
  }
  if (attempt.code != CURLE_OK) {
    Error reason = transport_error(request, attempt);
    reason.code = ErrorCode::network;
    return fail(std::move(reason));
  }
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
