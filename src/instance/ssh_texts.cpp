#include "instance/ssh_texts.hpp"

#include <fmt/format.h>

#include "base/process.hpp"
#include "init/service.hpp"
#include "instance/place.hpp"

namespace startrail::instance {
namespace {

// ssh_config(5), TOKENS: a percent sign begins one.
std::string without_tokens(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '%' ? "%%" : std::string(1, c);
  return result;
}

std::string quoted(const std::filesystem::path& path) {
  return "\"" + without_tokens(path.string()) + "\"";
}

}  // namespace

std::string server_configuration() {
  return fmt::format(
      "HostKey {0}/host_key\n"
      "AuthorizedKeysFile {0}/authorized_keys\n"
      "PubkeyAuthentication yes\n"
      "PasswordAuthentication no\n"
      "KbdInteractiveAuthentication no\n"
      "HostbasedAuthentication no\n"
      "PermitRootLogin no\n"
      "PermitUserEnvironment no\n"
      // Every path to these files belongs to this user, or to root outside: nobody else could change them.
      "StrictModes no\n"
      "UsePAM no\n"
      "UseDNS no\n"
      "PidFile none\n"
      "PrintMotd no\n"
      "PrintLastLog no\n"
      "X11Forwarding no\n"
      // Editors open many channels over one connection.
      "MaxSessions 64\n"
      "AcceptEnv LANG LC_* COLORTERM TERM_PROGRAM\n"
      "Subsystem sftp internal-sftp\n"
      "Include {1}/{2}\n",
      k_server_folder, init::k_service_folder, init::k_service_variables);
}

std::string host_key_alias(const std::string& name) {
  return "startrail-" + name;
}

std::string client_block(const Client& client) {
  const std::string proxy = fmt::format("{} ssh-proxy {} {}", base::shell_quote(client.program.string()),
                                        base::shell_quote(client.state.string()), client.name);
  return fmt::format(
      "Host {0}\n"
      "  HostName {0}\n"
      "  HostKeyAlias {1}\n"
      "  Port 22\n"
      "  User {2}\n"
      "  ProxyCommand {3}\n"
      "  ProxyJump none\n"
      "  ProxyUseFdpass no\n"
      "  IdentityFile {4}\n"
      "  IdentitiesOnly yes\n"
      "  IdentityAgent none\n"
      "  UserKnownHostsFile {5}\n"
      "  GlobalKnownHostsFile /dev/null\n"
      "  StrictHostKeyChecking yes\n"
      "  HostKeyAlgorithms ssh-ed25519\n"
      "  PubkeyAcceptedKeyTypes ssh-ed25519\n"
      "  PreferredAuthentications publickey\n"
      "  PubkeyAuthentication yes\n"
      "  CheckHostIP no\n"
      "  VerifyHostKeyDNS no\n"
      "  UpdateHostKeys no\n"
      "  CanonicalizeHostname no\n"
      "  ControlMaster no\n"
      "  ControlPath none\n"
      "  ControlPersist no\n"
      "  ForwardAgent no\n"
      "  ForwardX11 no\n"
      "  ClearAllForwardings no\n"
      "  PermitLocalCommand no\n"
      "  RemoteCommand none\n"
      "  RequestTTY auto\n"
      "  Tunnel no\n",
      client.name, host_key_alias(client.name), client.user, without_tokens(proxy), quoted(client.identity),
      quoted(client.known_hosts));
}

}  // namespace startrail::instance
