// What registries and users say, on arbitrary bytes: references, challenges, ranges, errors.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "image/registry/challenge.hpp"
#include "image/registry/credentials.hpp"
#include "image/registry/reference.hpp"
#include "image/registry/session.hpp"
#include "image/registry/upload.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  using namespace startrail::image;
  if (const auto reference = parse_reference(text)) {
    const auto again = parse_reference(reference->text());
    if (!again || *again != *reference) std::abort();
  }
  (void)names_a_registry(text);
  (void)is_loopback(text);
  (void)parse_challenges(text);
  (void)bytes_in_range(text);
  if (registry_errors(std::string(text)).size() > 200) std::abort();
  if (from_base64(to_base64(text)) != text) std::abort();
  (void)from_base64(text);
  return 0;
}
