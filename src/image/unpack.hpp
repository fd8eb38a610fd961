// Unpacking the entries of one wheel while it arrives: inflate, SHA-256, CRC and write in one pass, over
// buffers that stay in the processor's cache. Nothing here waits: what isn't there yet is asked for by `Need`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/arriving_file.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "image/beneath.hpp"
#include "image/inflater.hpp"
#include "image/wheel_layout.hpp"
#include "image/zip_directory.hpp"

namespace startrail::image {

// What one worker reuses from entry to entry: all the memory that unpacking takes.
struct WorkerBuffers {
  static constexpr std::size_t k_input = 3U << 20U, k_output = 1U << 20U;
  std::vector<std::byte> input = std::vector<std::byte>(k_input);
  std::vector<std::byte> output = std::vector<std::byte>(k_output);
  Inflater inflater;
  base::Sha256 hash;
};

// One wheel being unpacked; shared by the workers, each writing other elements of `digests`.
struct Unpacking {
  const base::ArrivingFile* file = nullptr;
  const Beneath* root = nullptr;  // of the staging tree; folders exist
  std::vector<ZipEntry> entries;
  WheelLayout layout;
  std::vector<base::Sha256Digest> digests;  // one per entry
};

struct Span {
  std::uint64_t offset = 0, length = 0;
};
// Bytes that must be there before work can go on; nullopt: it is finished.
using Need = std::optional<Span>;

// Entries [first, last) in a row, all small: read at once, unpacked whole.
inline constexpr std::uint64_t k_small_entry = 1U << 20U;  // compressed and not
inline constexpr std::uint64_t k_batch = 1U << 20U;        // of the archive in one batch, but for its last entry
[[nodiscard]] Result<void> unpack_batch(Unpacking& wheel, std::size_t first, std::size_t last, WorkerBuffers& buffers);

// One large entry, as a stream that can be put aside between any two bytes.
class EntryStream {
 public:
  EntryStream(Unpacking& wheel, std::size_t index);
  // Unpacks what is there. Errors: corrupt, conflict, no_space.
  [[nodiscard]] Result<Need> advance(WorkerBuffers& buffers);

 private:
  [[nodiscard]] Result<void> begin(std::span<const std::byte>& input);
  [[nodiscard]] Result<void> take(std::span<const std::byte> input, std::span<std::byte> output);
  [[nodiscard]] Result<void> put(std::span<const std::byte> output);
  [[nodiscard]] Result<void> end(WorkerBuffers& buffers);

  Unpacking& m_wheel;
  std::size_t m_index;
  const ZipEntry& m_entry;
  std::uint64_t m_position;      // in the archive
  std::uint64_t m_data_end = 0;  // 0 until the local header has been read
  std::uint64_t m_written = 0;
  std::uint32_t m_crc = 0;
  bool m_stream_ended = false;
  std::optional<Inflater> m_inflater;
  base::Sha256 m_hash;
  base::Fd m_output;
};

// SHA-256 of the archive, following the bytes in their order.
class ArchiveHash {
 public:
  explicit ArchiveHash(const base::ArrivingFile& file) : m_file(file) {}
  [[nodiscard]] Result<Need> advance(WorkerBuffers& buffers);
  [[nodiscard]] std::string finish();
  [[nodiscard]] std::uint64_t left() const { return m_file.size() - m_position; }

 private:
  const base::ArrivingFile& m_file;
  std::uint64_t m_position = 0;
  base::Sha256 m_hash;
};

}  // namespace startrail::image
