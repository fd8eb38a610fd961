// Getting and renewing the right to speak with a registry: anonymous, basic, or bearer tokens of a token server.
// Rules: the distribution project's "Token Authentication Specification", both its GET and its OAuth2 form.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/http.hpp"
#include "image/registry/challenge.hpp"
#include "image/registry/credentials.hpp"

namespace startrail::image {

// What is asked for: "repository:team/model:pull", "repository:other:pull".
using Scope = std::vector<std::string>;

// Members may be called from several threads at once.
class Authorization {
 public:
  // A token server that is spoken to without TLS must be on loopback, unless `plain` is allowed.
  enum class Transport { secure, plain };
  Authorization(base::HttpClient& client, std::optional<Credentials> credentials, Transport transport);

  // The value of the Authorization header as far as it's known, "" for none. Never waits for the network.
  [[nodiscard]] std::string header(const Scope& scope) const;

  // After a 401 to a request that was sent with `refused`: makes `header` another one. Several callers with the same
  // refused header share one token. False: there is nothing else to try.
  // Errors: network, refused, permission (the token server's), unsupported (another scheme).
  [[nodiscard]] Result<bool> answer(const std::vector<Challenge>& challenges, const Scope& scope,
                                    const std::string& refused);

  // For messages: where credentials are from; "" when there are none.
  [[nodiscard]] std::string credentials_from() const { return m_credentials ? m_credentials->from : ""; }

 private:
  struct Token {
    std::string value;
    std::chrono::steady_clock::time_point expires;
  };
  enum class Scheme { unknown, basic, bearer };

  [[nodiscard]] Result<bool> take_token(const Challenge& challenge, const Scope& scope);
  [[nodiscard]] Result<base::HttpResponse> ask(const base::HttpRequest& request);
  [[nodiscard]] Result<base::HttpResponse> ask_by_get(const Challenge& challenge, const Scope& scope);
  [[nodiscard]] Result<base::HttpResponse> ask_by_post(const Challenge& challenge, const Scope& scope);
  [[nodiscard]] Result<void> check_realm(const std::string& realm) const;
  [[nodiscard]] std::string basic() const;

  base::HttpClient& m_client;
  const Transport m_transport;
  std::mutex m_asking;         // held while a token is asked for
  mutable std::mutex m_mutex;  // guards what follows
  std::optional<Credentials> m_credentials;
  Scheme m_scheme = Scheme::unknown;
  std::map<std::string, Token> m_tokens;  // by scope
};

}  // namespace startrail::image
