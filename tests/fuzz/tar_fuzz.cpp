// The tar reader on arbitrary bytes: what it accepts lies inside of the archive, and the names that a layer may have
// stay below its root.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "image/oci/tar_reader.hpp"
#include "image/oci/unpack_layer.hpp"

namespace {

using namespace startrail::image;
using startrail::Result;

class Bytes final : public ByteInput {
 public:
  explicit Bytes(std::span<const std::byte> all) : m_all(all) {}
  Result<std::span<const std::byte>> next(std::size_t most) override {
    const auto piece = m_all.first(std::min({most, m_all.size(), std::size_t{700}}));
    m_all = m_all.subspan(piece.size());
    return piece;
  }

 private:
  std::span<const std::byte> m_all;
};

void check_path(const std::string& path) {
  const auto plain = plain_path(path);
  if (!plain) return;
  if (plain->starts_with('/') || plain->ends_with('/')) std::abort();
  const std::string framed = "/" + *plain + "/";
  if (framed.find("/../") != std::string::npos || framed.find("/./") != std::string::npos) std::abort();
  if (!plain->empty() && framed.find("//") != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes input(std::as_bytes(std::span(data, size)));
  TarReader tar(input);
  for (;;) {
    const auto entry = tar.next();
    if (!entry || !*entry) return 0;
    if ((*entry)->offset > size) std::abort();
    check_path((*entry)->path);
    std::uint64_t given = 0;
    for (;;) {
      const auto piece = tar.content();
      if (!piece) return 0;
      if (piece->empty()) break;
      given += piece->size();
    }
    if (given != (*entry)->size || given > size) std::abort();
  }
}
