#include "base/hash.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/files.hpp"

namespace startrail::base {
namespace {

EVP_MD_CTX* as_context(void* pointer) {
  return static_cast<EVP_MD_CTX*>(pointer);
}

}  // namespace

void Sha256::Deleter::operator()(void* context) const {
  EVP_MD_CTX_free(as_context(context));
}

Sha256::Sha256() : m_context(EVP_MD_CTX_new()) {
  static const EVP_MD* const s_algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_DigestInit_ex(as_context(m_context.get()), s_algorithm, nullptr);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> data) {
  EVP_DigestUpdate(as_context(m_context.get()), data.data(), data.size());
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span(text.data(), text.size())));
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(as_context(m_context.get()), reinterpret_cast<unsigned char*>(digest.data()), &length);
  EVP_DigestInit_ex(as_context(m_context.get()), nullptr, nullptr);
  return digest;
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte value : bytes) {
    text += digits[std::to_integer<unsigned>(value) >> 4U];
    text += digits[std::to_integer<unsigned>(value) & 15U];
  }
  return text;
}

std::string to_base64url(std::span<const std::byte> bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  unsigned bits = 0;
  int held = 0;
  for (const std::byte value : bytes) {
    bits = (bits << 8U) | std::to_integer<unsigned>(value);
    for (held += 8; held >= 6; held -= 6) text += alphabet[(bits >> static_cast<unsigned>(held - 6)) & 63U];
  }
  if (held > 0) text += alphabet[(bits << static_cast<unsigned>(6 - held)) & 63U];
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return to_hex(hash.finish());
}

Result<std::string> sha256_file_hex(const std::filesystem::path& file) {
  const auto fd = TRY(open_file(file, O_RDONLY));
  Sha256 hash;
  std::vector<std::byte> buffer(1U << 20U);
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(fmt::format("cannot read {}", file.string()), errno));
    if (count == 0) return to_hex(hash.finish());
    hash.update(std::span(buffer).first(static_cast<std::size_t>(count)));
  }
}

}  // namespace startrail::base
