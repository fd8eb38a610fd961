#include "base/arriving_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace startrail::base {
namespace {

struct JournalHeader {
  std::array<char, 8> magic;
  std::uint64_t size;
  std::uint64_t chunk;
};
constexpr std::array<char, 8> k_magic{'T', 'R', 'P', 'A', 'R', 'T', '0', '1'};

fs::path journal_of(const fs::path& part) {
  return part.string() + ".journal";
}

// The journal speaks of this content, and the bytes it promises can be in the part.
bool is_usable(const JournalHeader& header, std::uint64_t size, int part) {
  struct stat status{};
  return header.magic == k_magic && header.size == size && header.chunk == ArrivingFile::k_chunk &&
         ::fstat(part, &status) == 0 && static_cast<std::uint64_t>(status.st_size) == size;
}

}  // namespace

Result<std::shared_ptr<ArrivingFile>> ArrivingFile::open(const fs::path& part, std::uint64_t size) {
  std::shared_ptr<ArrivingFile> file(new ArrivingFile);
  file->m_path = part;
  file->m_size = size;
  file->m_chunks = (size + k_chunk - 1) / k_chunk;
  file->m_file = TRY(open_file(part, O_RDWR | O_CREAT));
  const Fd journal = TRY(open_file(journal_of(part), O_RDWR | O_CREAT));
  const std::size_t length = sizeof(JournalHeader) + file->m_chunks * sizeof(std::uint32_t);
  JournalHeader header{};
  struct stat status{};
  const bool resumable = ::fstat(journal.get(), &status) == 0 && static_cast<std::size_t>(status.st_size) == length &&
                         ::pread(journal.get(), &header, sizeof header, 0) == sizeof header &&
                         is_usable(header, size, file->m_file.get());
  if (!resumable) {
    if (::ftruncate(journal.get(), 0) != 0 || ::ftruncate(file->m_file.get(), 0) != 0 ||
        ::ftruncate(file->m_file.get(), static_cast<off_t>(size)) != 0)
      return fail(errno_error(fmt::format("cannot set the size of {}", part.string()), errno));
  }
  // Its blocks must exist: a store into a mapped hole on a full disk would end the process.
  if (const int code = ::posix_fallocate(journal.get(), 0, static_cast<off_t>(length)); code != 0)
    return fail(errno_error(fmt::format("cannot write {}", journal_of(part).string()), code));
  file->m_journal = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, journal.get(), 0);
  if (file->m_journal == MAP_FAILED) {
    file->m_journal = nullptr;
    return fail(errno_error(fmt::format("cannot map {}", journal_of(part).string()), errno));
  }
  file->m_journal_length = length;
  if (!resumable) {
    header = {.magic = k_magic, .size = size, .chunk = k_chunk};
    std::memcpy(file->m_journal, &header, sizeof header);
  }
  for (std::uint64_t index = 0; index < file->m_chunks; ++index) file->m_resumed += file->chunk_received(index);
  file->m_received = file->m_resumed;
  return file;
}

ArrivingFile::~ArrivingFile() {
  if (m_journal != nullptr) ::munmap(m_journal, m_journal_length);
}

std::atomic_ref<std::uint32_t> ArrivingFile::counter(std::uint64_t index) const {
  auto* counters = reinterpret_cast<std::uint32_t*>(static_cast<char*>(m_journal) + sizeof(JournalHeader));
  return std::atomic_ref<std::uint32_t>(counters[index]);
}

std::uint64_t ArrivingFile::chunk_length(std::uint64_t index) const {
  return std::min(k_chunk, m_size - index * k_chunk);
}

std::uint64_t ArrivingFile::chunk_received(std::uint64_t index) const {
  // A damaged journal must not promise more than a chunk holds.
  return std::min<std::uint64_t>(counter(index).load(std::memory_order_acquire), chunk_length(index));
}

std::uint64_t ArrivingFile::available(std::uint64_t offset, std::uint64_t at_most) const {
  std::uint64_t end = offset;
  const std::uint64_t limit = std::min(m_size, offset + at_most);
  while (end < limit) {
    const std::uint64_t index = end / k_chunk;
    const std::uint64_t there = index * k_chunk + chunk_received(index);
    if (there <= end) break;
    end = there;
    if (there < index * k_chunk + chunk_length(index)) break;
  }
  return std::min(end, limit) - std::min(offset, limit);
}

Result<void> ArrivingFile::read(std::uint64_t offset, std::span<std::byte> buffer) const {
  while (!buffer.empty()) {
    const ssize_t count = ::pread(m_file.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(fmt::format("cannot read {}", m_path.string()), errno));
    if (count == 0) return fail(ErrorCode::corrupt, fmt::format("{} ended early", m_path.string()));
    buffer = buffer.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

void ArrivingFile::note_written(std::uint64_t offset, std::uint64_t length) {
  std::uint64_t added = 0;
  for (const std::uint64_t end = offset + length; offset < end;) {
    const std::uint64_t index = offset / k_chunk;
    const std::uint64_t start = index * k_chunk;
    const std::uint64_t stop = std::min(end, start + chunk_length(index));
    const std::uint64_t before = chunk_received(index);
    if (offset - start <= before && stop - start > before) {
      added += stop - start - before;
      counter(index).store(static_cast<std::uint32_t>(stop - start), std::memory_order_release);
    }
    offset = stop;
  }
  m_received.fetch_add(added, std::memory_order_acq_rel);
}

Result<void> ArrivingFile::write(std::uint64_t offset, std::string_view bytes) {
  const std::uint64_t start = offset;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t count = ::pwrite(m_file.get(), rest.data(), rest.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(fmt::format("cannot write {}", m_path.string()), errno));
    rest.remove_prefix(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  note_written(start, bytes.size());
  return {};
}

void ArrivingFile::remove(const fs::path& part) {
  ::unlink(journal_of(part).c_str());
  ::unlink(part.c_str());
}

}  // namespace startrail::base
