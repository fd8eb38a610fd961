// Reading tar archives entry by entry: ustar (POSIX.1-1988), pax headers (POSIX.1-2001), and GNU's long names and large
// numbers. Nothing is believed: every length is bounded, every header's checksum is compared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <sys/types.h>

#include "base/error.hpp"

namespace startrail::image {

// Bytes in order.
class ByteInput {
 public:
  virtual ~ByteInput() = default;
  // The next ones, `most` at most, good until the next call; none at the end.
  [[nodiscard]] virtual Result<std::span<const std::byte>> next(std::size_t most) = 0;
  // Goes past so many. Errors: corrupt (there are fewer).
  [[nodiscard]] virtual Result<void> skip(std::uint64_t count);
};

struct TarEntry {
  enum class Kind { file, folder, symlink, hard_link, device, pipe };
  Kind kind = Kind::file;
  std::string path;    // as it is written there
  std::string target;  // of a link
  std::uint64_t size = 0;
  mode_t mode = 0;
  std::int64_t modified = 0;  // seconds since 1970
  std::uint64_t offset = 0;   // of its content in the archive
};

class TarReader {
 public:
  explicit TarReader(ByteInput& input) : m_input(input) {}
  // The next entry; what is unread of the one before is passed over. nullopt at the archive's end.
  // Errors: corrupt, unsupported (sparse files), and the input's.
  [[nodiscard]] Result<std::optional<TarEntry>> next();
  // The next piece of its content; empty when all was given. Errors: corrupt (the archive ends early).
  [[nodiscard]] Result<std::span<const std::byte>> content();

 private:
  using Block = std::array<char, 512>;
  using Records = std::map<std::string, std::string>;  // of a pax header
  enum class Read { block, end };
  [[nodiscard]] Result<Read> read_block(Block& block);
  [[nodiscard]] Result<std::string> read_text(std::uint64_t size);
  [[nodiscard]] Result<void> finish_entry();
  [[nodiscard]] Result<TarEntry> entry_of(const Block& block, const Records& records);

  ByteInput& m_input;
  std::uint64_t m_position = 0;
  std::uint64_t m_left = 0;     // of the entry's content
  std::uint64_t m_padding = 0;  // behind it
};

}  // namespace startrail::image
