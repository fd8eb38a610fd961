// What verification reads of the libraries that wheels and layers bring.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "image/verify/elf_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static_cast<void>(startrail::image::parse_elf({reinterpret_cast<const char*>(data), size}));
  return 0;
}
