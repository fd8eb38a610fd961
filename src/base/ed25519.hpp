// A new Ed25519 key pair (RFC 8032), as raw bytes.
#pragma once

#include <array>
#include <cstddef>

#include "base/error.hpp"

namespace startrail::base {

struct Ed25519Key {
  std::array<std::byte, 32> seed{}, public_key{};
};
// From the system's randomness. Errors: internal.
[[nodiscard]] Result<Ed25519Key> make_ed25519_key();

}  // namespace startrail::base
