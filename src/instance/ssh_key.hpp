// Ed25519 keys in the files that OpenSSH reads, made without ssh-keygen: an instance starts without other programs.
#pragma once

#include <string>
#include <string_view>

#include "base/ed25519.hpp"
#include "base/error.hpp"

namespace startrail::instance {

struct SshKey {
  std::string private_file;  // OpenSSH's own format (its PROTOCOL.key), without a passphrase
  std::string public_line;   // "ssh-ed25519 AAAA… comment", without a newline
};
[[nodiscard]] SshKey to_ssh_key(const base::Ed25519Key& key, std::string_view comment);
[[nodiscard]] Result<SshKey> make_ssh_key(std::string_view comment);

}  // namespace startrail::instance
