#include "instance/ssh_key.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/hash.hpp"

namespace startrail::instance {
namespace {

constexpr std::string_view k_type = "ssh-ed25519";
constexpr std::size_t k_line = 70;
constexpr std::size_t k_block = 8;  // PROTOCOL.key: the private part is padded to the cipher's block

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string base64(std::string_view text) {
  std::string encoded = base::to_base64url(std::as_bytes(std::span(text)));
  std::ranges::replace(encoded, '-', '+');
  std::ranges::replace(encoded, '_', '/');
  while (encoded.size() % 4 != 0) encoded += '=';
  return encoded;
}

// RFC 4251, section 5: uint32 and string.
std::string number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xffU);
  return bytes;
}

std::string counted(std::string_view text) {
  return number(static_cast<std::uint32_t>(text.size())).append(text);
}

std::string private_part(const base::Ed25519Key& key, std::string_view comment) {
  const std::string public_key(as_text(key.public_key));
  // Two equal numbers tell a right passphrase from a wrong one; there is none.
  std::string part = number(0) + number(0) + counted(k_type) + counted(public_key) +
                     counted(std::string(as_text(key.seed)) + public_key) + counted(comment);
  for (char padding = 1; part.size() % k_block != 0; ++padding) part += padding;
  return part;
}

std::string in_lines(std::string_view text) {
  std::string lines;
  for (std::size_t at = 0; at < text.size(); at += k_line) lines.append(text.substr(at, k_line)).append("\n");
  return lines;
}

}  // namespace

SshKey to_ssh_key(const base::Ed25519Key& key, std::string_view comment) {
  const std::string public_part = counted(k_type) + counted(as_text(key.public_key));
  std::string whole("openssh-key-v1\0", 15);
  whole += counted("none") + counted("none") + counted("") + number(1) + counted(public_part) +
           counted(private_part(key, comment));
  return {.private_file =
              "-----BEGIN OPENSSH PRIVATE KEY-----\n" + in_lines(base64(whole)) + "-----END OPENSSH PRIVATE KEY-----\n",
          .public_line = std::string(k_type) + " " + base64(public_part) + " " + std::string(comment)};
}

Result<SshKey> make_ssh_key(std::string_view comment) {
  return to_ssh_key(TRY(base::make_ed25519_key()), comment);
}

}  // namespace startrail::instance
