// The directory of a zip archive, read as an enemy may have written it. One meaning only: an archive that
// two readers could understand differently is refused, not interpreted.
// Format: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 to 4.5. No input/output here: spans in, values out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace startrail::image {

enum class ZipMethod : std::uint16_t { stored = 0, deflated = 8 };

struct ZipEntry {
  std::string name;                 // UTF-8, as written; a folder's ends in '/'
  std::uint64_t header_offset = 0;  // of its local header
  std::uint64_t end = 0;            // where the next local header, or the directory, starts
  std::uint64_t compressed = 0, size = 0;
  std::uint32_t crc = 0;
  std::uint16_t flags = 0;
  ZipMethod method = ZipMethod::stored;
  bool executable = false;
  [[nodiscard]] bool is_folder() const { return name.ends_with('/'); }
};

// The end of the archive: where the central directory lies. Errors: corrupt (trailing or hidden data, several ends,
// several disks, sizes that contradict each other).
struct ZipEnd {
  std::uint64_t directory_offset = 0, directory_size = 0, entries = 0;
};
// So many bytes of the end of a file hold all the records that `find_zip_end` needs.
inline constexpr std::uint64_t k_zip_end_size = 22 + 20 + 56 + 65535;
[[nodiscard]] Result<ZipEnd> find_zip_end(std::span<const std::byte> tail, std::uint64_t file_size);

// Limits beyond which an archive is called a bomb.
struct ZipLimits {
  std::uint64_t entries = 300'000;
  std::uint64_t directory_size = 96ULL << 20U;
  std::uint64_t content_size = 64ULL << 30U;
  std::uint64_t ratio = 100;                      // of content to archive …
  std::uint64_t ratio_free_size = 256ULL << 20U;  // … once the content is larger than this
};

// Entries in the order of their offsets; together with the directory they cover the file from its first byte.
// Errors: corrupt, unsafe_path, each naming the entry: names that aren't UTF-8 or leave the root, symlinks and
// devices, encryption, unknown methods, duplicates, names that differ only in case, a file used as a folder,
// overlaps, gaps before the first entry, bombs.
[[nodiscard]] Result<std::vector<ZipEntry>> read_zip_directory(std::span<const std::byte> directory, const ZipEnd& end,
                                                               const ZipLimits& limits = {});

// Checks a local header, at the start of `bytes`, against the directory; gives the offset of the data from there.
// Errors: corrupt. `bytes` must hold the whole header: see `local_header_length`.
[[nodiscard]] Result<std::uint64_t> check_local_header(std::span<const std::byte> bytes, const ZipEntry& entry);
inline constexpr std::uint64_t k_local_header = 30;  // without name and extra field

// Checks what stands between an entry's data and the next header: nothing, or a data descriptor that agrees.
[[nodiscard]] Result<void> check_after_data(std::span<const std::byte> bytes, const ZipEntry& entry);

// A relative path of plain components: no "..", ".", "//", backslash, control character, over-long component.
// Errors: unsafe_path.
[[nodiscard]] Result<void> check_relative_path(std::string_view path);
[[nodiscard]] bool is_valid_utf8(std::string_view text);

}  // namespace startrail::image
