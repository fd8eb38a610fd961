// SHA-256, the one digest this program uses.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::base {

using Sha256Digest = std::array<std::byte, 32>;

// Streaming hash (OpenSSL EVP, which picks the CPU's SHA instructions). Not thread-safe; movable.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> data);
  void update(std::string_view text);
  // Ends the computation; the object is ready for a new one afterwards.
  [[nodiscard]] Sha256Digest finish();

 private:
  struct Deleter {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Deleter> m_context;
};

[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);
// RECORD's form: URL-safe base64 without padding (PyPA "Recording installed projects").
[[nodiscard]] std::string to_base64url(std::span<const std::byte> bytes);

// 64 hex digits.
[[nodiscard]] std::string sha256_hex(std::string_view text);
[[nodiscard]] Result<std::string> sha256_file_hex(const std::filesystem::path& file);

}  // namespace startrail::base
