// RECORD's reader on arbitrary bytes; what it accepts must survive being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "image/record_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto lines = startrail::image::parse_record({reinterpret_cast<const char*>(data), size});
  if (!lines) return 0;
  const auto again = startrail::image::parse_record(startrail::image::to_text(*lines));
  if (!again || *again != *lines) std::abort();
  return 0;
}
