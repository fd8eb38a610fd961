// The zip readers on arbitrary bytes: what they accept lies inside of the file, in one piece, without overlaps.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "image/wheel_layout.hpp"
#include "image/zip_directory.hpp"

namespace {

using namespace startrail::image;

void check_entry(std::span<const std::byte> file, const ZipEntry& entry) {
  if (entry.end > file.size() || entry.header_offset > entry.end) std::abort();
  const auto bytes = file.subspan(entry.header_offset, entry.end - entry.header_offset);
  const auto data_at = check_local_header(bytes, entry);
  if (!data_at) return;
  if (*data_at > bytes.size()) std::abort();
  if (bytes.size() - *data_at < entry.compressed) return;  // the pipeline refuses it where it opens the entry
  (void)check_after_data(bytes.subspan(*data_at + entry.compressed), entry);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto end = find_zip_end(file.last(std::min<std::size_t>(size, k_zip_end_size)), size);
  if (!end) return 0;
  if (end->directory_size > size || end->directory_offset > size - end->directory_size) std::abort();
  const auto entries = read_zip_directory(file.subspan(end->directory_offset, end->directory_size), *end);
  if (!entries) return 0;
  std::uint64_t covered = 0;
  for (const ZipEntry& entry : *entries) {
    if (entry.header_offset != covered) std::abort();
    covered = entry.end;
    check_entry(file, entry);
  }
  if (covered != end->directory_offset) std::abort();
  const auto layout = wheel_layout(*entries);
  if (layout && layout->placements.size() != entries->size()) std::abort();
  return 0;
}
