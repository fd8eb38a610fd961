// Requests to one repository of one registry: addresses, credentials, patience, and errors that name both.
// Rules: OCI distribution specification 1.1.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/http.hpp"
#include "base/process.hpp"
#include "image/registry/authorization.hpp"
#include "image/registry/reference.hpp"

namespace startrail::image {

enum class PlainHttp { on_loopback, everywhere };

struct RegistryOptions {
  PlainHttp plain_http = PlainHttp::on_loopback;
  base::Environment environment;               // of the caller: where credentials are looked for
  int attempts = 5;                            // of one request, and of one upload without progress
  std::chrono::milliseconds first_delay{500};  // before the second attempt; doubles each time
  std::chrono::seconds longest_wait{60};       // that a Retry-After is heeded for
  // Uploads larger than a server lets through are sent in chunks of this many bytes, or the server's own minimum.
  std::uint64_t chunk = 64ULL << 20U;
};

enum class Access { pull, push };

// busy_only: a failure that may have left half of a body there is the caller's to judge; only 429 is waited out.
enum class Retries { all, busy_only };

// What the registry wants to be asked, below /v2/<repository>/, or at an address that it gave ("http…").
struct RegistryRequest {
  std::string method = "GET";
  std::string path;  // "manifests/latest"
  std::vector<std::string> headers = {};
  std::string body = {};
  std::optional<base::HttpFile> file = {};
  std::optional<std::string> also_pull = {};  // a repository whose blob is to be mounted
  Retries retries = Retries::all;
  Bytes limit{32ULL << 20U};
  std::chrono::seconds timeout{120};
  std::function<void(std::uint64_t)> on_bytes = {};
};

// Members may be called from several threads at once.
class Session {
 public:
  // Looks for credentials, and on loopback for TLS. Errors: corrupt (a file with credentials), network.
  [[nodiscard]] static Result<std::unique_ptr<Session>> open(const Reference& reference, Access access,
                                                             const RegistryOptions& options);

  // With credentials as they are asked for. Connection failures, 408, 429 and 5xx are tried again.
  // A response is what is left: success, redirects that lead nowhere, and 4xx but for these errors:
  // permission (401, 403), network (429 and 5xx to the end).
  [[nodiscard]] Result<base::HttpResponse> send(const RegistryRequest& request);

  [[nodiscard]] const Reference& reference() const { return m_reference; }
  [[nodiscard]] const RegistryOptions& options() const { return m_options; }
  [[nodiscard]] std::string address(const std::string& path) const;
  // Headers of requests that others make to `address`, with the credentials of this moment.
  [[nodiscard]] std::vector<std::string> headers() const;
  // An address as Location gives it, which may be relative.
  [[nodiscard]] std::string resolve(const std::string& location) const;

  // The error for an answer that can't be used: "HOST refused to …: 400 MANIFEST_INVALID: …".
  [[nodiscard]] Error refusal(const base::HttpResponse& response, const std::string& purpose) const;

 private:
  Session(Reference reference, Access access, const RegistryOptions& options, CredentialSearch credentials);
  [[nodiscard]] Result<void> find_scheme();
  [[nodiscard]] Scope scope_of(const RegistryRequest& request) const;
  [[nodiscard]] Result<base::HttpResponse> send_once(const RegistryRequest& request);
  [[nodiscard]] bool is_own(const std::string& url) const;
  [[nodiscard]] Error no_access(const base::HttpResponse& response) const;
  [[nodiscard]] Error with_place(Error reason) const;

  const Reference m_reference;
  const Access m_access;
  const RegistryOptions m_options;
  std::string m_base;  // "https://host"
  const std::vector<std::string> m_remarks;
  base::HttpClient m_client;
  Authorization m_authorization;
};

// What the body of an error answer says ("MANIFEST_UNKNOWN: …"), short and on one line; "" for nothing.
[[nodiscard]] std::string registry_errors(const std::string& body);

}  // namespace startrail::image
