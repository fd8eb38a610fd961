// Whom to be at a registry, as docker and podman keep it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "image/registry/reference.hpp"

namespace startrail::image {

// Never printed or stored; `from` is what messages may say.
struct Credentials {
  std::string user, password;
  std::string identity_token;  // an OAuth2 refresh token, instead of the password
  std::string registry_token;  // a bearer token, ready to be sent
  std::string from;            // "/root/.docker/config.json", "docker-credential-pass"
};

struct CredentialSearch {
  std::optional<Credentials> found;
  std::vector<std::string> remarks;  // why a place had none although it should, for the error if they are asked for
};

// $REGISTRY_AUTH_FILE alone where it is set; else config.json of $DOCKER_CONFIG (~/.docker), then containers/auth.json
// below $XDG_RUNTIME_DIR (/run/containers/UID) and $XDG_CONFIG_HOME (~/.config). In each: a credential helper for the
// host, then `auths`, where an entry for the repository or a part of its path goes before its host's.
// Errors: corrupt (a file that can't be read as one of these).
[[nodiscard]] Result<CredentialSearch> find_credentials(const base::Environment& environment,
                                                        const Reference& reference);

// RFC 4648, 4; nullopt for what isn't.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);
[[nodiscard]] std::string to_base64(std::string_view bytes);

}  // namespace startrail::image
