// The reader of entry_points.txt on arbitrary bytes: a command's name is a file name, and nothing that is written into
// its script can end the line that it stands in.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "image/entry_points.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto entries = startrail::image::parse_entry_points({reinterpret_cast<const char*>(data), size});
  if (!entries) return 0;
  for (const startrail::image::EntryPoint& entry : *entries) {
    if (entry.name.empty() || entry.name == "." || entry.name == "..") std::abort();
    if (entry.name.find('/') != std::string::npos || entry.name.find('\0') != std::string::npos) std::abort();
    const std::string script = startrail::image::script_text(entry, "/opt/env/bin/python");
    if (std::ranges::count(script, '\n') != 7) std::abort();
  }
  return 0;
}
