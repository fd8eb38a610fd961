#include "image/registry/authorization.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "base/json.hpp"
#include "image/registry/reference.hpp"

namespace startrail::image {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto k_default_lifetime = std::chrono::seconds(60);  // where the server doesn't say
constexpr auto k_early = std::chrono::seconds(5);              // a token that ends so soon isn't begun with
constexpr int k_attempts = 4;

std::string joined(const Scope& scope) {
  return fmt::format("{}", fmt::join(scope, " "));
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").contains(letter))
      result += letter;
    else
      result += fmt::format("%{:02X}", byte);
  }
  return result;
}

std::string parameter(const Challenge& challenge, const std::string& name) {
  const auto found = challenge.parameters.find(name);
  return found == challenge.parameters.end() ? "" : found->second;
}

const Challenge* find(const std::vector<Challenge>& challenges, std::string_view scheme) {
  const auto found = std::ranges::find(challenges, scheme, &Challenge::scheme);
  return found == challenges.end() ? nullptr : &*found;
}

std::string schemes_of(const std::vector<Challenge>& challenges) {
  std::vector<std::string> names;
  for (const Challenge& challenge : challenges) names.push_back(challenge.scheme);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Authorization::Authorization(base::HttpClient& client, std::optional<Credentials> credentials, Transport transport)
    : m_client(client), m_transport(transport), m_credentials(std::move(credentials)) {}

std::string Authorization::basic() const {
  if (!m_credentials || m_credentials->password.empty()) return "";
  return "Basic " + to_base64(m_credentials->user + ":" + m_credentials->password);
}

std::string Authorization::header(const Scope& scope) const {
  const std::scoped_lock lock(m_mutex);
  if (m_scheme == Scheme::basic) return basic();
  if (m_credentials && !m_credentials->registry_token.empty()) return "Bearer " + m_credentials->registry_token;
  const auto token = m_tokens.find(joined(scope));
  if (token == m_tokens.end() || token->second.expires < Clock::now()) return "";
  return "Bearer " + token->second.value;
}

Result<bool> Authorization::answer(const std::vector<Challenge>& challenges, const Scope& scope,
                                   const std::string& refused) {
  const std::scoped_lock asking(m_asking);
  if (const std::string now = header(scope); now != refused && !now.empty()) return true;
  if (const Challenge* bearer = find(challenges, "bearer")) return take_token(*bearer, scope);
  if (find(challenges, "basic") == nullptr)
    return base::fail(
        ErrorCode::unsupported,
        fmt::format("it asks for credentials by `{}`; basic and bearer are known here", schemes_of(challenges)));
  const std::scoped_lock lock(m_mutex);
  const bool is_new = m_scheme != Scheme::basic && !basic().empty();
  m_scheme = Scheme::basic;
  return is_new;
}

Result<void> Authorization::check_realm(const std::string& realm) const {
  if (realm.starts_with("https://")) return {};
  const bool allowed =
      realm.starts_with("http://") && (m_transport == Transport::plain || is_loopback(base::host_of(realm)));
  if (allowed) return {};
  return base::fail(ErrorCode::refused,
                    fmt::format("it names `{}` as its token server, where credentials would travel unprotected",
                                base::without_credentials(realm)));
}

// Token servers are busy like others.
Result<base::HttpResponse> Authorization::ask(const base::HttpRequest& request) {
  for (int attempt = 1;; ++attempt) {
    auto response = m_client.send(request);
    const bool again =
        response ? response->status == 429 || response->status >= 500 : response.error().code == ErrorCode::network;
    if (!again || attempt == k_attempts) return response;
    const auto asked = response ? base::retry_after(*response, std::chrono::seconds(60)) : std::nullopt;
    std::this_thread::sleep_for(asked.value_or(std::chrono::seconds(0)) + std::chrono::milliseconds(250 << attempt));
  }
}

Result<base::HttpResponse> Authorization::ask_by_get(const Challenge& challenge, const Scope& scope) {
  std::string url = parameter(challenge, "realm");
  url += url.contains('?') ? "&" : "?";
  url += "client_id=startrail";
  if (const std::string service = parameter(challenge, "service"); !service.empty())
    url += "&service=" + escaped(service);
  for (const std::string& part : scope) url += "&scope=" + escaped(part);
  base::HttpRequest request{.url = url, .limit = Bytes{1U << 20U}, .netrc = base::Netrc::ignore};
  if (const std::string own = basic(); !own.empty()) request.headers.push_back("Authorization: " + own);
  return ask(request);
}

Result<base::HttpResponse> Authorization::ask_by_post(const Challenge& challenge, const Scope& scope) {
  std::string form =
      "grant_type=refresh_token&client_id=startrail&service=" + escaped(parameter(challenge, "service")) +
      "&scope=" + escaped(joined(scope));
  form += "&refresh_token=" + escaped(m_credentials->identity_token);
  return ask({.url = parameter(challenge, "realm"),
              .headers = {"Content-Type: application/x-www-form-urlencoded"},
              .limit = Bytes{1U << 20U},
              .method = "POST",
              .body = form,
              .netrc = base::Netrc::ignore});
}

Result<bool> Authorization::take_token(const Challenge& challenge, const Scope& scope) {
  TRY(check_realm(parameter(challenge, "realm")));
  Scope whole = scope;
  if (const std::string more = parameter(challenge, "scope"); !more.empty() && scope.empty()) whole.push_back(more);
  const bool refreshes = m_credentials && !m_credentials->identity_token.empty();
  const auto response = TRY(refreshes ? ask_by_post(challenge, whole) : ask_by_get(challenge, whole));
  const std::string server = base::host_of(parameter(challenge, "realm"));
  if (response.status == 401 || response.status == 403 || response.status == 400) return false;
  if (response.status != 200)
    return base::fail(ErrorCode::network, fmt::format("its token server {} answered {}", server, response.status));
  const auto told = base::parse_json(response.body, "token");
  std::string value = told ? base::string_at(*told, "token") : "";
  if (value.empty() && told) value = base::string_at(*told, "access_token");
  if (value.empty() || value.find_first_of("\r\n") != std::string::npos)
    return base::fail(ErrorCode::network, fmt::format("its token server {} answered without a token", server));
  const auto lifetime = std::max(k_default_lifetime, std::chrono::seconds(base::integer_at(*told, "expires_in", 0)));
  const std::scoped_lock lock(m_mutex);
  m_scheme = Scheme::bearer;
  m_tokens[joined(scope)] = {.value = value, .expires = Clock::now() + lifetime - k_early};
  if (const std::string next = base::string_at(*told, "refresh_token"); refreshes && !next.empty())
    m_credentials->identity_token = next;  // some servers give one for a single use
  return true;
}

}  // namespace startrail::image
