// runs/<id>/log holds the bytes as they came; runs/<id>/log.index one 16-byte little-endian record per chunk:
// u64 end offset in `log`, u64 (milliseconds since 1970) << 1 | stream (0 stdout, 1 stderr).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/units.hpp"

namespace startrail::run {

class LogWriter {
 public:
  static constexpr Bytes k_limit{1ULL << 30U};
  // Goes on where an earlier writer stopped; a torn index record is cut off.
  [[nodiscard]] static Result<LogWriter> open(const std::filesystem::path& run_directory, Bytes limit = k_limit);
  enum class Stream { output = 0, errors = 1 };
  // Up to `limit` bytes; a line then says so, and of what follows only the last 64 KiB are kept, for `finish`.
  [[nodiscard]] Result<void> append(Stream stream, std::string_view data);
  // Writes the end of an output that was over the limit, with a line that says how much is missing before it.
  [[nodiscard]] Result<void> finish();

 private:
  LogWriter(base::Fd log, base::Fd index, std::uint64_t size, Bytes limit);
  Result<void> write(Stream stream, std::string_view data);
  void drop(std::string_view data);
  base::Fd m_log, m_index;
  std::uint64_t m_size = 0;
  Bytes m_limit;
  bool m_over = false;          // the line has been said
  std::uint64_t m_dropped = 0;  // bytes over the limit
  std::string m_end;            // the last of them
};

struct LogChunk {
  LogWriter::Stream stream = LogWriter::Stream::output;
  base::Time time;
  std::string data;
};

// Reads on from where it was; survives a torn last index record.
class LogReader {
 public:
  explicit LogReader(std::filesystem::path run_directory);
  // Chunks that arrived since the last call (at most about 1 MiB); empty when there are none.
  [[nodiscard]] Result<std::vector<LogChunk>> next();
  // The same for a run whose writer is gone: bytes that no index record describes (the writer was killed
  // between the two writes) come last, as stdout.
  [[nodiscard]] Result<std::vector<LogChunk>> next_of_ended();
  // Skips to the last `count` lines.
  [[nodiscard]] Result<void> seek_to_last_lines(std::size_t count);

 private:
  std::filesystem::path m_directory;
  std::uint64_t m_offset = 0, m_index_offset = 0;
};

// The last `limit` bytes of the log, whatever its streams.
[[nodiscard]] std::string log_tail(const std::filesystem::path& run_directory, std::size_t limit);

}  // namespace startrail::run
