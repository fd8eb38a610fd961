#include "image/unpack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include <unistd.h>

namespace startrail::image {
namespace {

// Large enough to make few system calls, small enough that inflated bytes are hashed and written from the cache.
constexpr std::size_t k_window = 256U << 10U;
// A stream goes on when so much more is there, so that it isn't taken up for every packet.
constexpr std::uint64_t k_least_gain = 1U << 20U;
constexpr std::uint64_t k_hash_gain = 4U << 20U;
constexpr std::uint64_t k_longest_header = k_local_header + 2 * 65535;

Error about(const ZipEntry& entry, Error reason) {
  reason.message = fmt::format("'{}': {}", entry.name, reason.message);
  return reason;
}

std::unexpected<Error> corrupt(const ZipEntry& entry, std::string_view why) {
  return base::fail(about(entry, base::error(ErrorCode::corrupt, std::string(why))));
}

mode_t mode_of(const Placement& placement) {
  return placement.executable ? 0555 : 0444;
}

Result<void> check_content(const ZipEntry& entry, std::uint32_t crc) {
  if (crc != entry.crc) return corrupt(entry, "its content does not match its checksum");
  return {};
}

// One entry of a batch; `bytes` is everything from its local header to the next one.
Result<void> unpack_small(Unpacking& wheel, std::size_t index, std::span<const std::byte> bytes,
                          WorkerBuffers& buffers) {
  const ZipEntry& entry = wheel.entries[index];
  const Placement& placement = wheel.layout.placements[index];
  const std::uint64_t header = TRY(check_local_header(bytes, entry));
  if (bytes.size() - header < entry.compressed) return corrupt(entry, "it overlaps what follows it");
  const auto data = bytes.subspan(header, entry.compressed);
  TRY(check_after_data(bytes.subspan(header + entry.compressed), entry));
  std::span<const std::byte> content = data;
  if (entry.method == ZipMethod::deflated) {
    const auto output = std::span(buffers.output).first(entry.size);
    if (auto inflated = buffers.inflater.whole(data, output); !inflated)
      return base::fail(about(entry, std::move(inflated).error()));
    content = output;
  }
  TRY(check_content(entry, crc32(0, content)));
  if (entry.is_folder()) return {};
  buffers.hash.update(content);
  wheel.digests[index] = buffers.hash.finish();
  if (placement.target.empty()) return {};
  return wheel.root->write(placement.target, {reinterpret_cast<const char*>(content.data()), content.size()},
                           mode_of(placement));
}

}  // namespace

Result<void> unpack_batch(Unpacking& wheel, std::size_t first, std::size_t last, WorkerBuffers& buffers) {
  const std::uint64_t begin = wheel.entries[first].header_offset;
  const auto bytes = std::span(buffers.input).first(wheel.entries[last - 1].end - begin);
  TRY(wheel.file->read(begin, bytes));
  for (std::size_t index = first; index < last; ++index) {
    const ZipEntry& entry = wheel.entries[index];
    TRY(unpack_small(wheel, index, bytes.subspan(entry.header_offset - begin, entry.end - entry.header_offset),
                     buffers));
  }
  return {};
}

EntryStream::EntryStream(Unpacking& wheel, std::size_t index)
    : m_wheel(wheel), m_index(index), m_entry(wheel.entries[index]), m_position(m_entry.header_offset) {}

Result<void> EntryStream::begin(std::span<const std::byte>& input) {
  const std::uint64_t header = TRY(check_local_header(input, m_entry));
  m_position += header;
  m_data_end = m_position + m_entry.compressed;
  if (m_data_end > m_entry.end) return corrupt(m_entry, "it overlaps what follows it");
  input = input.subspan(header).first(std::min<std::uint64_t>(input.size() - header, m_entry.compressed));
  if (m_entry.method == ZipMethod::deflated) m_inflater.emplace();
  const Placement& placement = m_wheel.layout.placements[m_index];
  if (!placement.target.empty()) m_output = TRY(m_wheel.root->create(placement.target, mode_of(placement)));
  return {};
}

Result<void> EntryStream::put(std::span<const std::byte> output) {
  if (output.size() > m_entry.size - m_written) return corrupt(m_entry, "it is larger than announced");
  m_written += output.size();
  m_crc = crc32(m_crc, output);
  m_hash.update(output);
  if (!m_output.valid()) return {};
  return base::write_all(m_output.get(), {reinterpret_cast<const char*>(output.data()), output.size()}, m_entry.name);
}

Result<void> EntryStream::take(std::span<const std::byte> input, std::span<std::byte> output) {
  m_position += input.size();
  if (!m_inflater) return put(input);
  for (;;) {
    auto step = m_inflater->step(input, output);
    if (!step) return base::fail(about(m_entry, std::move(step).error()));
    TRY(put(output.first(step->produced)));
    input = input.subspan(step->consumed);
    m_stream_ended = step->ended;
    if (m_stream_ended && !input.empty()) return corrupt(m_entry, "its compressed data ends early");
    if (m_stream_ended || (input.empty() && step->produced < output.size())) return {};
    if (step->consumed == 0 && step->produced == 0) return corrupt(m_entry, "its compressed data is damaged");
  }
}

Result<void> EntryStream::end(WorkerBuffers& buffers) {
  const auto after = std::span(buffers.input).first(std::min<std::uint64_t>(m_entry.end - m_data_end, 64));
  TRY(m_wheel.file->read(m_data_end, after));
  TRY(check_after_data(after, m_entry));
  if (m_inflater && !m_stream_ended) return corrupt(m_entry, "its compressed data is cut off");
  if (m_written != m_entry.size) return corrupt(m_entry, "it is smaller than announced");
  TRY(check_content(m_entry, m_crc));
  m_wheel.digests[m_index] = m_hash.finish();
  m_output.reset();
  m_inflater.reset();
  return {};
}

Result<Need> EntryStream::advance(WorkerBuffers& buffers) {
  const base::ArrivingFile& file = *m_wheel.file;
  const auto window = std::span(buffers.input).first(k_window);
  const auto output = std::span(buffers.output).first(k_window);
  static_assert(k_window > k_longest_header);
  for (;;) {
    const std::uint64_t stop = m_data_end == 0 ? m_entry.end : m_data_end;
    const std::uint64_t length = std::min<std::uint64_t>(window.size(), stop - m_position);
    if (m_data_end != 0 && length == 0) break;
    if (file.available(m_position, length) < length)
      return Span{.offset = m_position, .length = std::min(k_least_gain, stop - m_position)};
    TRY(file.read(m_position, window.first(length)));
    std::span<const std::byte> input = window.first(length);
    if (m_data_end == 0) TRY(begin(input));
    TRY(take(input, output));
  }
  const std::uint64_t after = m_entry.end - m_data_end;
  if (file.available(m_data_end, after) < after) return Span{.offset = m_data_end, .length = after};
  TRY(end(buffers));
  return std::nullopt;
}

Result<Need> ArchiveHash::advance(WorkerBuffers& buffers) {
  const auto window = std::span(buffers.input).first(k_window);
  while (m_position < m_file.size()) {
    const std::uint64_t length = std::min<std::uint64_t>(window.size(), left());
    if (m_file.available(m_position, length) < length)
      return Span{.offset = m_position, .length = std::min(k_hash_gain, left())};
    TRY(m_file.read(m_position, window.first(length)));
    m_hash.update(window.first(length));
    m_position += length;
  }
  return std::nullopt;
}

std::string ArchiveHash::finish() {
  return base::to_hex(m_hash.finish());
}

}  // namespace startrail::image
