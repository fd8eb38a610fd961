#include "base/ed25519.hpp"

#include <openssl/evp.h>
#include <sys/random.h>

#include <memory>

namespace startrail::base {

Result<Ed25519Key> make_ed25519_key() {
  Ed25519Key key;
  const auto failed = [] { return fail(ErrorCode::internal, "cannot make an Ed25519 key"); };
  if (::getrandom(key.seed.data(), key.seed.size(), 0) != static_cast<ssize_t>(key.seed.size())) return failed();
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(key.seed.data()),
                                   key.seed.size()),
      &EVP_PKEY_free);
  std::size_t size = key.public_key.size();
  if (!pair ||
      EVP_PKEY_get_raw_public_key(pair.get(), reinterpret_cast<unsigned char*>(key.public_key.data()), &size) != 1)
    return failed();
  return key;
}

}  // namespace startrail::base
