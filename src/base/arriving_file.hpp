// A file that arrives over the network in pieces and out of order, with a journal of what is there.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/files.hpp"

namespace startrail::base {

// The bytes are in `part`; `part`.journal, mapped into memory, counts for each chunk how many bytes from its
// start are there. The counters are stored after the bytes are written and belong to the page cache, so a killed
// process loses at most what it held in its own buffers. (After a power cut the two may disagree; the content's
// hash finds that.) Any number of threads may ask; one thread writes.
class ArrivingFile {
 public:
  static constexpr std::uint64_t k_chunk = 1U << 20U;

  // Opens `part` for a content of `size` bytes and takes over what an earlier process left there,
  // if its journal is about the same size. Errors: no_space, permission, internal.
  [[nodiscard]] static Result<std::shared_ptr<ArrivingFile>> open(const fs::path& part, std::uint64_t size);
  ~ArrivingFile();
  ArrivingFile(const ArrivingFile&) = delete;
  ArrivingFile& operator=(const ArrivingFile&) = delete;

  [[nodiscard]] std::uint64_t size() const { return m_size; }
  // Bytes that are there without a gap from `offset` on, counted up to `at_most`.
  [[nodiscard]] std::uint64_t available(std::uint64_t offset, std::uint64_t at_most) const;
  [[nodiscard]] bool complete() const { return m_received.load(std::memory_order_acquire) == m_size; }
  // Bytes there in all, from this process or an earlier one.
  [[nodiscard]] std::uint64_t received() const { return m_received.load(std::memory_order_acquire); }
  // Bytes there that an earlier process had fetched.
  [[nodiscard]] std::uint64_t resumed() const { return m_resumed; }
  // Fills the start of `buffer` from `offset`; the caller has seen that the bytes are available.
  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> buffer) const;
  [[nodiscard]] const fs::path& path() const { return m_path; }

  // ---- the writer's side ----
  // Bytes of chunk `index` that are there, and its full length.
  [[nodiscard]] std::uint64_t chunk_received(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t chunk_length(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t chunks() const { return m_chunks; }
  // Writes bytes that continue what is there, or repeat it, from `offset` on.
  [[nodiscard]] Result<void> write(std::uint64_t offset, std::string_view bytes);

  // Removes a part and its journal.
  static void remove(const fs::path& part);

 private:
  ArrivingFile() = default;
  void note_written(std::uint64_t offset, std::uint64_t length);
  [[nodiscard]] std::atomic_ref<std::uint32_t> counter(std::uint64_t index) const;

  fs::path m_path;
  Fd m_file;
  std::uint64_t m_size = 0, m_chunks = 0, m_resumed = 0;
  void* m_journal = nullptr;
  std::size_t m_journal_length = 0;
  std::atomic<std::uint64_t> m_received{0};
};

}  // namespace startrail::base
