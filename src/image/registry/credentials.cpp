#include "image/registry/credentials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include <unistd.h>

#include "base/files.hpp"
#include "base/json.hpp"

namespace startrail::image {
namespace {

constexpr std::string_view k_base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
// Docker's name for its own registry, from before there were others.
constexpr std::string_view k_hub_key = "https://index.docker.io/v1/";
constexpr auto k_helper_patience = std::chrono::seconds(30);

std::string value_of(const base::Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::vector<fs::path> files_to_look_in(const base::Environment& environment) {
  if (const std::string only = value_of(environment, "REGISTRY_AUTH_FILE"); !only.empty()) return {only};
  std::vector<fs::path> files;
  const fs::path home = value_of(environment, "HOME");
  const std::string docker = value_of(environment, "DOCKER_CONFIG");
  if (!docker.empty())
    files.push_back(fs::path(docker) / "config.json");
  else if (!home.empty())
    files.push_back(home / ".docker/config.json");
  const std::string runtime = value_of(environment, "XDG_RUNTIME_DIR");
  files.push_back(
      (runtime.empty() ? fs::path(fmt::format("/run/containers/{}", ::getuid())) : fs::path(runtime) / "containers") /
      "auth.json");
  const std::string config = value_of(environment, "XDG_CONFIG_HOME");
  if (!config.empty())
    files.push_back(fs::path(config) / "containers/auth.json");
  else if (!home.empty())
    files.push_back(home / ".config/containers/auth.json");
  return files;
}

// "https://index.docker.io/v1/" is "docker.io", "http://host:5000/v2/" is "host:5000".
std::string plain_key(std::string_view key) {
  bool is_address = false;
  for (const std::string_view scheme : {"https://", "http://"})
    if (key.starts_with(scheme)) {
      key.remove_prefix(scheme.size());
      is_address = true;
    }
  if (is_address) key = key.substr(0, key.find('/'));
  while (key.ends_with('/')) key.remove_suffix(1);
  if (key == "index.docker.io" || key == "registry-1.docker.io") return "docker.io";
  return std::string(key);
}

// host/a/b, host/a, host: the most exact first.
std::vector<std::string> keys_of(const Reference& reference) {
  std::vector<std::string> keys;
  for (std::string key = reference.place();; key.resize(key.rfind('/'))) {
    keys.push_back(key);
    if (key == reference.host) return keys;
  }
}

// The parser's own words are left out: they quote what they stumbled over, and that may be a password.
Result<Json> parse_config(const std::string& text, const fs::path& file) {
  auto config = base::parse_json(text, file.string());
  if (config && config->is_object()) return config;
  return base::fail(
      base::error(ErrorCode::corrupt, fmt::format("the credentials in {} can't be read: it is no JSON", file.string()))
          .with_hint("write it anew with `docker login` or `podman login`, or name another with REGISTRY_AUTH_FILE"));
}

std::optional<Credentials> read_entry(const Json& entry, const fs::path& file) {
  Credentials found{.user = base::string_at(entry, "username"),
                    .password = base::string_at(entry, "password"),
                    .identity_token = base::string_at(entry, "identitytoken"),
                    .registry_token = base::string_at(entry, "registrytoken"),
                    .from = file.string()};
  if (const auto pair = from_base64(base::string_at(entry, "auth")); pair && !pair->empty()) {
    const auto colon = pair->find(':');
    found.user = pair->substr(0, colon);
    if (colon != std::string::npos) found.password = pair->substr(colon + 1);
    while (found.password.ends_with('\0')) found.password.pop_back();  // old versions of docker padded it
  }
  const bool has_some = !found.password.empty() || !found.identity_token.empty() || !found.registry_token.empty();
  return has_some ? std::optional(std::move(found)) : std::nullopt;
}

std::optional<Credentials> from_auths(const Json& config, const fs::path& file, const Reference& reference) {
  const Json& auths = base::member(config, "auths");
  if (!auths.is_object()) return std::nullopt;
  for (const std::string& wanted : keys_of(reference))
    for (const auto& [key, entry] : auths.items())
      if (entry.is_object() && plain_key(key) == wanted)
        if (auto found = read_entry(entry, file)) return found;
  return std::nullopt;
}

struct Helper {
  std::string program, server;
};

std::optional<Helper> helper_for(const Json& config, const Reference& reference) {
  const Json& helpers = base::member(config, "credHelpers");
  if (helpers.is_object())
    for (const std::string& wanted : keys_of(reference))
      for (const auto& [key, name] : helpers.items())
        if (name.is_string() && plain_key(key) == wanted)
          return Helper{.program = "docker-credential-" + name.get<std::string>(), .server = key};
  const std::string store = base::string_at(config, "credsStore");
  if (store.empty()) return std::nullopt;
  return Helper{.program = "docker-credential-" + store,
                .server = reference.host == "docker.io" ? std::string(k_hub_key) : reference.host};
}

// The helper's protocol: the server on stdin; {"ServerURL", "Username", "Secret"} on stdout, or exit status 1.
std::optional<Credentials> ask_helper(const Helper& helper, const base::Environment& environment,
                                      std::vector<std::string>& remarks) {
  const auto answer = base::run_process({.argv = {helper.program, "get"},
                                         .environment = environment,
                                         .input = helper.server + "\n",
                                         .timeout = k_helper_patience,
                                         .output_limit = Bytes{1U << 20U}});
  if (!answer) {
    remarks.push_back(fmt::format("the credential helper {} could not be started", helper.program));
    return std::nullopt;
  }
  if (!answer->succeeded()) {
    if (answer->output.find("credentials not found") == std::string::npos)
      remarks.push_back(fmt::format("the credential helper {} failed", helper.program));
    return std::nullopt;
  }
  const auto told = base::parse_json(answer->output, helper.program);
  const std::string secret = told ? base::string_at(*told, "Secret") : "";
  if (secret.empty()) {
    remarks.push_back(fmt::format("the credential helper {} answered without a secret", helper.program));
    return std::nullopt;
  }
  Credentials found{.user = base::string_at(*told, "Username"), .from = helper.program};
  (found.user == "<token>" ? found.identity_token : found.password) = secret;
  return found;
}

}  // namespace

std::optional<std::string> from_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const auto value = k_base64.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xFFU);
  }
  return bytes;
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t index = 0; index < 3; ++index)
      bits = (bits << 8U) | (index < count ? static_cast<unsigned char>(bytes[at + index]) : 0U);
    for (std::size_t index = 0; index < 4; ++index)
      text += index <= count ? k_base64[(bits >> (18U - 6U * index)) & 63U] : '=';
  }
  return text;
}

Result<CredentialSearch> find_credentials(const base::Environment& environment, const Reference& reference) {
  CredentialSearch search;
  for (const fs::path& file : files_to_look_in(environment)) {
    const auto text = base::read_file(file, Bytes{16U << 20U});
    if (!text) {
      if (text.error().code != ErrorCode::not_found) search.remarks.push_back(text.error().message);
      continue;
    }
    if (text->empty()) continue;
    const Json config = TRY(parse_config(*text, file));
    if (const auto helper = helper_for(config, reference)) {
      search.found = ask_helper(*helper, environment, search.remarks);
      if (search.found) return search;
    }
    search.found = from_auths(config, file, reference);
    if (search.found) return search;
  }
  return search;
}

}  // namespace startrail::image
