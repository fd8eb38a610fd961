#include "image/registry/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/json.hpp"

namespace startrail::image {
namespace {

constexpr std::size_t k_longest_remark = 200;

bool is_worth_a_retry(const Result<base::HttpResponse>& response) {
  if (!response) return response.error().code == ErrorCode::network;
  return response->status == 408 || response->status == 429 || response->status >= 500;
}

// A server that speaks TLS says so to who doesn't (RFC 9110 has no status for it: 400, and words).
bool speaks_tls(const Result<base::HttpResponse>& response) {
  return response ? response->status == 400 && response->body.contains("HTTPS")
                  : response.error().code == ErrorCode::network;
}

std::string origin_of(std::string_view url) {
  const auto scheme = url.find("://");
  return std::string(url.substr(0, scheme == std::string_view::npos ? 0 : url.find('/', scheme + 3)));
}

}  // namespace

std::string registry_errors(const std::string& body) {
  const auto json = base::parse_json(body, "answer");
  if (!json) return "";
  std::string text;
  for (const Json& entry : base::member(*json, "errors")) {
    const std::string code = base::string_at(entry, "code");
    const std::string message = base::string_at(entry, "message");
    if (!text.empty()) text += "; ";
    text += message.empty() ? code : fmt::format("{}: {}", code, message);
  }
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  if (text.size() > k_longest_remark) text.resize(k_longest_remark);
  return text;
}

Result<std::unique_ptr<Session>> Session::open(const Reference& reference, Access access,
                                               const RegistryOptions& options) {
  auto credentials = TRY(find_credentials(options.environment, reference));
  std::unique_ptr<Session> session(new Session(reference, access, options, std::move(credentials)));
  TRY(session->find_scheme());
  return session;
}

Session::Session(Reference reference, Access access, const RegistryOptions& options, CredentialSearch credentials)
    : m_reference(std::move(reference)),
      m_access(access),
      m_options(options),
      m_remarks(std::move(credentials.remarks)),
      m_authorization(m_client, std::move(credentials.found),
                      options.plain_http == PlainHttp::everywhere ? Authorization::Transport::plain
                                                                  : Authorization::Transport::secure) {}

// Registries on loopback mostly speak plain HTTP, but not all do.
Result<void> Session::find_scheme() {
  const std::string host = api_host(m_reference.host);
  m_base = (m_options.plain_http == PlainHttp::everywhere ? "http://" : "https://") + host;
  if (m_options.plain_http == PlainHttp::everywhere || !is_loopback(host)) return {};
  m_base = "http://" + host;
  const auto ask = [&](const std::string& base) {
    return m_client.send({.url = base + "/v2/", .timeout = std::chrono::seconds(20), .netrc = base::Netrc::ignore});
  };
  const auto plain = ask(m_base);
  if (!speaks_tls(plain)) return {};
  if (const auto secure = ask("https://" + host); secure || secure.error().code == ErrorCode::refused)
    m_base = "https://" + host;
  return {};
}

std::string Session::address(const std::string& path) const {
  if (path.starts_with("http://") || path.starts_with("https://")) return path;
  return fmt::format("{}/v2/{}/{}", m_base, m_reference.repository, path);
}

std::string Session::resolve(const std::string& location) const {
  if (location.starts_with("//")) return m_base.substr(0, m_base.find("//")) + location;
  return location.starts_with('/') ? m_base + location : address(location);
}

bool Session::is_own(const std::string& url) const {
  return origin_of(url) == m_base;
}

Scope Session::scope_of(const RegistryRequest& request) const {
  Scope scope{fmt::format("repository:{}:{}", m_reference.repository, m_access == Access::pull ? "pull" : "pull,push")};
  if (request.also_pull) scope.push_back(fmt::format("repository:{}:pull", *request.also_pull));
  return scope;
}

std::vector<std::string> Session::headers() const {
  const std::string authorization = m_authorization.header(scope_of({}));
  return authorization.empty() ? std::vector<std::string>{} : std::vector{"Authorization: " + authorization};
}

Result<base::HttpResponse> Session::send_once(const RegistryRequest& request) {
  base::HttpRequest out{.url = address(request.path),
                        .headers = request.headers,
                        .timeout = request.timeout,
                        .limit = request.limit,
                        .method = request.method,
                        .body = request.body,
                        .file = request.file,
                        .on_bytes = request.on_bytes,
                        .netrc = base::Netrc::ignore};
  // Uploads may be sent elsewhere: what the registry trusts is not for others.
  const bool own = is_own(out.url);
  const Scope scope = scope_of(request);
  const std::string authorization = own ? m_authorization.header(scope) : "";
  if (!authorization.empty()) out.headers.push_back("Authorization: " + authorization);
  auto response = TRY(m_client.send(out));
  // A redirect may lead to anybody, whose challenge could name a place of theirs for the credentials to go to.
  if (response.status != 401 || !own || !is_own(response.final_url)) return response;
  const auto challenges = parse_challenges(response.headers["www-authenticate"]);
  if (!TRY(m_authorization.answer(challenges, scope, authorization))) return response;
  out.headers = request.headers;
  out.headers.push_back("Authorization: " + m_authorization.header(scope));
  return m_client.send(out);
}

Result<base::HttpResponse> Session::send(const RegistryRequest& request) {
  auto delay = m_options.first_delay;
  for (int attempt = 1;; ++attempt) {
    auto response = send_once(request);
    const bool is_busy = response && response->status == 429;
    const bool again = is_worth_a_retry(response) && (is_busy || request.retries == Retries::all);
    if (!again || attempt >= m_options.attempts) {
      if (!response) return base::fail(with_place(std::move(response).error()));
      if (response->status == 401 || response->status == 403) return base::fail(no_access(*response));
      if (is_worth_a_retry(response)) return base::fail(refusal(*response, ""));
      return response;
    }
    const auto asked = response ? base::retry_after(*response, m_options.longest_wait) : std::nullopt;
    std::this_thread::sleep_for(asked ? std::chrono::milliseconds(*asked) : delay);
    delay *= 2;
  }
}

Error Session::with_place(Error reason) const {
  const bool is_about_tls = reason.message.contains("SSL");
  const std::string host = api_host(m_reference.host);
  if (!reason.message.contains(host)) reason.message = fmt::format("{} can't be used: {}", host, reason.message);
  reason.with_context(
      fmt::format("while {} {}", m_access == Access::pull ? "pulling from" : "pushing to", m_reference.place()));
  if (is_about_tls) reason.with_hint("--plain-http speaks to a registry without TLS");
  return reason;
}

Error Session::no_access(const base::HttpResponse& response) const {
  const std::string verb = m_access == Access::pull ? "pulling" : "pushing";
  const std::string from = m_authorization.credentials_from();
  const std::string told = registry_errors(response.body);
  const std::string cause = fmt::format("{}{}{}", response.status, told.empty() ? "" : " ", told);
  if (!is_own(response.final_url))
    return base::error(ErrorCode::permission,
                       fmt::format("{} sends {} {} on to {}, which refuses ({})", m_reference.host, verb,
                                   m_reference.repository, base::host_of(response.final_url), cause))
        .with_hint("the credentials for a registry are for its own host alone; use the address that it redirects to");
  Error reason = base::error(
      ErrorCode::permission,
      response.status == 403
          ? fmt::format("{} does not allow {} {} ({})", m_reference.host, verb, m_reference.repository, cause)
      : from.empty()
          ? fmt::format("{} wants credentials for {} {} ({})", m_reference.host, verb, m_reference.repository, cause)
          : fmt::format("{} refused the credentials from {} for {} {} ({})", m_reference.host, from, verb,
                        m_reference.repository, cause));
  for (const std::string& remark : m_remarks) reason.with_context(remark);
  return std::move(reason).with_hint(
      fmt::format("log in first: podman login {0}, or docker login {0}", m_reference.host));
}

Error Session::refusal(const base::HttpResponse& response, const std::string& purpose) const {
  const std::string told = registry_errors(response.body);
  const bool too_many = response.status == 429;
  const std::string what = purpose.empty() ? "" : fmt::format(" {}", purpose);
  Error reason = base::error(
      response.status == 404 ? ErrorCode::not_found : ErrorCode::network,
      fmt::format("{} answered {}{}{} for {}{}", m_reference.host, response.status, told.empty() ? "" : ": ",
                  told.empty() && too_many ? ": too many requests" : told, m_reference.repository, what));
  if (too_many) reason.with_hint("try again later; many registries allow more to those who log in");
  if (response.status >= 500) reason.with_hint("the fault is the registry's: try again later");
  return reason;
}

}  // namespace startrail::image
