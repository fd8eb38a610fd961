#include "run/snapshot_digests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>

#include "base/files.hpp"
#include "base/hash.hpp"

namespace startrail::run {
namespace {

// Timestamps of some filesystems are as coarse as two seconds (FAT; NFS servers vary).
constexpr std::chrono::seconds k_coarsest_timestamp{2};
constexpr std::string_view k_header = "startrail digests 1\n";
constexpr std::size_t k_digest_length = 64;

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// Reads a decimal number and the space after it.
template <class T>
bool take_number(std::string_view& text, T& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (failed != std::errc{} || length >= text.size() || text[length] != ' ') return false;
  text.remove_prefix(length + 1);
  return true;
}

}  // namespace

FileStamp stamp_of(const struct stat& status) {
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .inode = status.st_ino,
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

SnapshotDigests::SnapshotDigests(const fs::path& snapshots, const fs::path& folder)
    : m_file(snapshots / "cache" / base::sha256_hex(folder.string()).substr(0, 32)) {
  const auto trusted = (base::now() - k_coarsest_timestamp).time_since_epoch();
  m_newest_trusted_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(trusted).count();
  load();
}

// One record per file: "<sha256> <size> <inode> <mtime> <ctime> <path>\0".
void SnapshotDigests::load() {
  const auto content = base::read_file(m_file);
  if (!content || !content->starts_with(k_header)) return;
  std::string_view rest(*content);
  rest.remove_prefix(k_header.size());
  for (std::size_t end = 0; (end = rest.find('\0')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
    std::string_view record = rest.substr(0, end);
    if (record.size() <= k_digest_length) return;
    Entry entry{.sha256 = std::string(record.substr(0, k_digest_length))};
    record.remove_prefix(k_digest_length + 1);
    if (!take_number(record, entry.stamp.size) || !take_number(record, entry.stamp.inode) ||
        !take_number(record, entry.stamp.modified_ns) || !take_number(record, entry.stamp.changed_ns))
      return;
    m_before.emplace(record, std::move(entry));
  }
}

std::optional<std::string> SnapshotDigests::find(const std::string& path, const FileStamp& stamp) const {
  const auto found = m_before.find(path);
  if (found == m_before.end() || found->second.stamp != stamp) return std::nullopt;
  return found->second.sha256;
}

void SnapshotDigests::remember(const std::string& path, const FileStamp& stamp, const std::string& sha256) {
  if (std::max(stamp.modified_ns, stamp.changed_ns) > m_newest_trusted_ns) return;
  m_changed = m_changed || find(path, stamp) != sha256;
  m_now.insert_or_assign(path, Entry{stamp, sha256});
}

void SnapshotDigests::save() const {
  if (!m_changed && m_now.size() == m_before.size()) return;
  std::string content(k_header);
  for (const auto& [path, entry] : m_now)
    fmt::format_to(std::back_inserter(content), "{} {} {} {} {} {}{}", entry.sha256, entry.stamp.size,
                   entry.stamp.inode, entry.stamp.modified_ns, entry.stamp.changed_ns, path, '\0');
  if (base::make_directories(m_file.parent_path(), 0700)) [[maybe_unused]]
    const auto written = base::write_file_atomic(m_file, content, 0600);
}

}  // namespace startrail::run
