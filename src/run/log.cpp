#include "run/log.hpp"

#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "run/record.hpp"

namespace startrail::run {
namespace {

constexpr std::size_t k_record_size = 16;
constexpr std::size_t k_records_per_read = 4096;
constexpr std::uint64_t k_bytes_per_read = 1ULL << 20U;
constexpr std::size_t k_kept_end = 64U << 10U;

struct IndexRecord {
  std::uint64_t end = 0;
  std::uint64_t time_and_stream = 0;
};

std::uint64_t now_in_milliseconds() {
  const auto since = base::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

IndexRecord decode(const char* bytes) {
  IndexRecord record;
  std::memcpy(&record, bytes, k_record_size);
  return {le64toh(record.end), le64toh(record.time_and_stream)};
}

std::uint64_t size_of(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

Result<std::string> read_at(int fd, std::uint64_t offset, std::size_t count, const fs::path& name) {
  std::string data(count, '\0');
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(fd, data.data() + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(base::errno_error(fmt::format("cannot read {}", name.string()), errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  data.resize(done);
  return data;
}

// Files that aren't there yet are an empty log: the run may still be queued.
Result<std::optional<base::Fd>> open_if_there(const fs::path& file) {
  auto fd = base::open_file(file, O_RDONLY);
  if (fd) return std::optional(std::move(*fd));
  if (fd.error().code == ErrorCode::not_found) return std::optional<base::Fd>();
  return fail(std::move(fd).error());
}

// Where the last `count` lines begin; a last line without its newline counts as one.
Result<std::uint64_t> offset_of_last_lines(int fd, std::size_t count, const fs::path& name) {
  const std::uint64_t size = size_of(fd);
  if (count == 0) return size;
  std::size_t newlines = 0;
  for (std::uint64_t block_end = size; block_end > 0;) {
    const std::uint64_t block_start = block_end > 65536 ? block_end - 65536 : 0;
    const std::string block = TRY(read_at(fd, block_start, block_end - block_start, name));
    for (std::size_t i = block.size(); i-- > 0;) {
      const std::uint64_t at = block_start + i;
      if (block[i] == '\n' && at + 1 != size && ++newlines == count) return at + 1;
    }
    block_end = block_start;
  }
  return 0;
}

// The first record that ends after `offset`; ends only grow, so by halving.
Result<std::uint64_t> record_after(int fd, std::uint64_t offset, const fs::path& name) {
  std::uint64_t low = 0;
  std::uint64_t high = size_of(fd) / k_record_size;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    const std::string bytes = TRY(read_at(fd, middle * k_record_size, k_record_size, name));
    if (bytes.size() == k_record_size && decode(bytes.data()).end <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low * k_record_size;
}

}  // namespace

LogWriter::LogWriter(base::Fd log, base::Fd index, std::uint64_t size, Bytes limit)
    : m_log(std::move(log)), m_index(std::move(index)), m_size(size), m_limit(limit) {}

Result<LogWriter> LogWriter::open(const fs::path& run_directory, Bytes limit) {
  base::Fd log = TRY(base::open_file(run_directory / k_log_file, O_WRONLY | O_CREAT | O_APPEND, 0600));
  base::Fd index = TRY(base::open_file(run_directory / k_log_index_file, O_WRONLY | O_CREAT | O_APPEND, 0600));
  const std::uint64_t whole = size_of(index.get()) / k_record_size * k_record_size;
  if (whole != size_of(index.get()) && ::ftruncate(index.get(), static_cast<off_t>(whole)) != 0)
    return fail(base::errno_error(fmt::format("cannot repair {}", (run_directory / k_log_index_file).string()), errno));
  const std::uint64_t size = size_of(log.get());
  return LogWriter(std::move(log), std::move(index), size, limit);
}

Result<void> LogWriter::append(Stream stream, std::string_view data) {
  const std::uint64_t room = m_limit.count > m_size && !m_over ? m_limit.count - m_size : 0;
  const std::string_view fits = data.substr(0, std::min<std::uint64_t>(room, data.size()));
  drop(data.substr(fits.size()));
  TRY(write(stream, fits));
  if (m_over || m_dropped == 0) return {};
  m_over = true;
  return write(Stream::errors, fmt::format("\ntrail: this log has reached {}; of what follows only the last {} will be "
                                           "kept, and written here at the end\n",
                                           base::to_binary_text(m_limit), base::to_binary_text({k_kept_end})));
}

void LogWriter::drop(std::string_view data) {
  m_dropped += data.size();
  m_end += data;
  if (m_end.size() > 2 * k_kept_end) m_end.erase(0, m_end.size() - k_kept_end);
}

Result<void> LogWriter::finish() {
  if (m_dropped == 0) return {};
  if (m_end.size() > k_kept_end) m_end.erase(0, m_end.size() - k_kept_end);
  if (const std::uint64_t missing = m_dropped - m_end.size(); missing > 0)
    TRY(write(Stream::errors, fmt::format("\ntrail: {} bytes of the output are missing here\n", missing)));
  m_dropped = 0;
  return write(Stream::output, std::exchange(m_end, {}));
}

// Bytes first, record second: a reader never sees a record whose bytes aren't there. What a full disk cut short is
// put right, so that later records say the truth again.
Result<void> LogWriter::write(Stream stream, std::string_view data) {
  if (data.empty()) return {};
  if (auto written = base::write_all(m_log.get(), data, k_log_file); !written) {
    m_size = size_of(m_log.get());
    return written;
  }
  m_size += data.size();
  const IndexRecord record{htole64(m_size), htole64(now_in_milliseconds() << 1U | static_cast<std::uint64_t>(stream))};
  std::array<char, k_record_size> bytes{};
  std::memcpy(bytes.data(), &record, bytes.size());
  auto indexed = base::write_all(m_index.get(), {bytes.data(), bytes.size()}, k_log_index_file);
  if (!indexed) {
    const std::uint64_t whole = size_of(m_index.get()) / k_record_size * k_record_size;
    [[maybe_unused]] const auto cut = ::ftruncate(m_index.get(), static_cast<off_t>(whole));
  }
  return indexed;
}

LogReader::LogReader(fs::path run_directory) : m_directory(std::move(run_directory)) {}

Result<std::vector<LogChunk>> LogReader::next() {
  std::vector<LogChunk> chunks;
  const auto index = TRY(open_if_there(m_directory / k_log_index_file));
  if (!index) return chunks;
  const std::string records =
      TRY(read_at(index->get(), m_index_offset, k_records_per_read * k_record_size, m_directory / k_log_index_file));
  if (records.size() < k_record_size) return chunks;
  const auto log = TRY(open_if_there(m_directory / k_log_file));
  if (!log) return chunks;
  const std::uint64_t size = size_of(log->get());
  std::uint64_t taken = 0;
  for (std::size_t at = 0; at + k_record_size <= records.size() && taken < k_bytes_per_read; at += k_record_size) {
    const IndexRecord record = decode(records.data() + at);
    const std::uint64_t end = std::min(record.end, size);  // a log cut short by a full disk or a crash
    const std::uint64_t wanted = end > m_offset ? std::min(end - m_offset, k_bytes_per_read) : 0;
    if (wanted > 0) {
      std::string data = TRY(read_at(log->get(), m_offset, wanted, m_directory / k_log_file));
      taken += data.size();
      m_offset += data.size();
      chunks.push_back({.stream = static_cast<LogWriter::Stream>(record.time_and_stream & 1U),
                        .time = base::Time(std::chrono::milliseconds(record.time_and_stream >> 1U)),
                        .data = std::move(data)});
    }
    if (m_offset < end) break;  // the rest of a large chunk comes next time
    m_index_offset += k_record_size;
  }
  return chunks;
}

Result<std::vector<LogChunk>> LogReader::next_of_ended() {
  auto chunks = TRY(next());
  if (!chunks.empty()) return chunks;
  const auto log = TRY(open_if_there(m_directory / k_log_file));
  if (!log || size_of(log->get()) <= m_offset) return chunks;
  const std::uint64_t wanted = std::min(size_of(log->get()) - m_offset, k_bytes_per_read);
  std::string data = TRY(read_at(log->get(), m_offset, wanted, m_directory / k_log_file));
  m_offset += data.size();
  chunks.push_back({.stream = LogWriter::Stream::output, .time = base::now(), .data = std::move(data)});
  return chunks;
}

Result<void> LogReader::seek_to_last_lines(std::size_t count) {
  const auto log = TRY(open_if_there(m_directory / k_log_file));
  const auto index = TRY(open_if_there(m_directory / k_log_index_file));
  if (!log || !index) return {};
  m_offset = TRY(offset_of_last_lines(log->get(), count, m_directory / k_log_file));
  m_index_offset = TRY(record_after(index->get(), m_offset, m_directory / k_log_index_file));
  return {};
}

std::string log_tail(const fs::path& run_directory, std::size_t limit) {
  const auto log = base::open_file(run_directory / k_log_file, O_RDONLY);
  if (!log) return {};
  const std::uint64_t size = size_of(log->get());
  const std::uint64_t start = size > limit ? size - limit : 0;
  return read_at(log->get(), start, size - start, run_directory / k_log_file).value_or("");
}

}  // namespace startrail::run
