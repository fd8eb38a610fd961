// The configuration of both ends: the sshd inside an instance, and the user's ssh.
#pragma once

#include <filesystem>
#include <string>

namespace startrail::instance {

// For `sshd -i`, run as the container's ordinary user: nobody else can be logged in, and no password is asked for.
// The variables of the instance are included from a file that the service inside writes (init/serve.cpp).
[[nodiscard]] std::string server_configuration();

struct Client {
  std::string name, user;
  std::filesystem::path program;  // this one, for ProxyCommand
  std::filesystem::path state;    // its state folder
  std::filesystem::path identity, known_hosts;
};
// One Host block. For every option that could lead elsewhere it says what holds: ssh_config(5) takes the first value,
// and this comes before the user's own `Host *`.
[[nodiscard]] std::string client_block(const Client& client);

// What the host key is called in known_hosts, so that an instance is no host of the same name.
[[nodiscard]] std::string host_key_alias(const std::string& name);

}  // namespace startrail::instance
