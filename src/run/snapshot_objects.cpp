#include "run/snapshot_objects.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <functional>
#include <memory>
#include <string_view>

#include "base/files.hpp"
#include "base/hash.hpp"

namespace startrail::run {
namespace {

constexpr std::size_t k_block_size = 256U << 10U;

struct WriterCloser {
  void operator()(archive* writer) const { archive_write_free(writer); }
};
struct ReaderCloser {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

Error archive_error(archive* handle, const fs::path& file) {
  const int number = archive_errno(handle);
  if (number == ENOSPC || number == EDQUOT || number == EACCES)
    return base::errno_error(fmt::format("cannot write {}", file.string()), number);
  if (number == EIO || number == ESTALE || number == ENOMEM)
    return base::errno_error(fmt::format("cannot read {}", file.string()), number);
  const char* reason = archive_error_string(handle);
  return base::error(ErrorCode::corrupt, fmt::format("{}: {}", file.string(), reason == nullptr ? "damaged" : reason));
}

using OnBlock = std::function<Result<void>(std::string_view)>;

Result<void> read_blocks(int fd, Bytes limit, const fs::path& file, const OnBlock& on_block) {
  std::string block(k_block_size, '\0');
  for (std::uint64_t offset = 0; offset < limit.count;) {
    const std::size_t wanted = std::min<std::uint64_t>(block.size(), limit.count - offset);
    const ssize_t count = ::pread(fd, block.data(), wanted, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(base::errno_error(fmt::format("cannot read {}", file.string()), errno));
    if (count == 0) return {};
    offset += static_cast<std::uint64_t>(count);
    TRY(on_block({block.data(), static_cast<std::size_t>(count)}));
  }
  return {};
}

// One zstd stream into an open descriptor, by libarchive's raw format.
class Compressor {
 public:
  Compressor(int fd, fs::path file) : m_writer(archive_write_new()), m_file(std::move(file)) {
    archive_write_set_format_raw(m_writer.get());
    archive_write_add_filter_zstd(m_writer.get());
    m_good = archive_write_open_fd(m_writer.get(), fd) == ARCHIVE_OK;
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    m_good = m_good && archive_write_header(m_writer.get(), entry.get()) == ARCHIVE_OK;
  }
  Result<void> write(std::string_view block) {
    if (m_good && archive_write_data(m_writer.get(), block.data(), block.size()) >= 0) return {};
    return fail(archive_error(m_writer.get(), m_file));
  }
  Result<void> close() {
    if (m_good && archive_write_close(m_writer.get()) == ARCHIVE_OK) return {};
    return fail(archive_error(m_writer.get(), m_file));
  }

 private:
  std::unique_ptr<archive, WriterCloser> m_writer;
  fs::path m_file;
  bool m_good = false;
};

Result<std::string> digest_of(int fd, Bytes limit, const fs::path& file) {
  base::Sha256 hash;
  TRY(read_blocks(fd, limit, file, [&](std::string_view block) -> Result<void> {
    hash.update(block);
    return {};
  }));
  return base::to_hex(hash.finish());
}

// Compresses into `temporary` and returns the digest of what was read this time.
Result<SnapshotObjects::Added> compress(int fd, Bytes limit, const fs::path& file, int temporary,
                                        const fs::path& name) {
  base::Sha256 hash;
  SnapshotObjects::Added added;
  Compressor compressor(temporary, name);
  TRY(read_blocks(fd, limit, file, [&](std::string_view block) -> Result<void> {
    hash.update(block);
    added.size.count += block.size();
    return compressor.write(block);
  }));
  TRY(compressor.close());
  added.sha256 = base::to_hex(hash.finish());
  return added;
}

Result<void> decompress(const fs::path& object, const fs::path& into, int fd, base::Sha256& hash) {
  const std::unique_ptr<archive, ReaderCloser> reader(archive_read_new());
  archive_read_support_filter_zstd(reader.get());
  archive_read_support_format_raw(reader.get());
  // An empty content has no entry at all in the raw format.
  archive_read_support_format_empty(reader.get());
  archive_entry* entry = nullptr;
  if (archive_read_open_filename(reader.get(), object.c_str(), k_block_size) != ARCHIVE_OK)
    return fail(archive_error(reader.get(), object));
  const int header = archive_read_next_header(reader.get(), &entry);
  if (header == ARCHIVE_EOF) return {};
  if (header != ARCHIVE_OK) return fail(archive_error(reader.get(), object));
  std::string block(k_block_size, '\0');
  for (;;) {
    const la_ssize_t count = archive_read_data(reader.get(), block.data(), block.size());
    if (count < 0) return fail(archive_error(reader.get(), object));
    if (count == 0) return {};
    hash.update(std::string_view(block.data(), static_cast<std::size_t>(count)));
    TRY(base::write_all(fd, {block.data(), static_cast<std::size_t>(count)}, into));
  }
}

}  // namespace

fs::path SnapshotObjects::place_of(const std::string& sha256) const {
  return m_root / sha256.substr(0, 2) / sha256;
}

bool SnapshotObjects::contains(const std::string& sha256) const {
  struct stat status{};
  return ::stat(place_of(sha256).c_str(), &status) == 0 && status.st_size > 0;
}

// The kernel writes dirty pages back within half a minute; by then an object is either durable or gone.
void SnapshotObjects::make_durable(const std::string& sha256) const {
  constexpr std::time_t k_written_back_for_sure = 600;
  const fs::path place = place_of(sha256);
  struct stat status{};
  if (::stat(place.c_str(), &status) != 0 || ::time(nullptr) - status.st_ctime > k_written_back_for_sure) return;
  if (const auto object = base::open_file(place, O_RDONLY)) ::fsync(object->get());
  if (const auto folder = base::open_file(place.parent_path(), O_RDONLY | O_DIRECTORY)) ::fsync(folder->get());
}

Result<SnapshotObjects::Added> SnapshotObjects::add(int fd, const fs::path& file, Bytes limit) const {
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
    return fail(ErrorCode::invalid_input, fmt::format("{} is not a regular file", file.string()));
  std::string known = TRY(digest_of(fd, limit, file));
  if (contains(known)) return Added{std::move(known), {static_cast<std::uint64_t>(status.st_size)}};
  TRY(base::make_directories(m_root, 0700));
  std::string temporary = (m_root / ".adding.XXXXXX").string();
  const base::Fd output(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!output.valid()) return fail(base::errno_error(fmt::format("cannot write {}", m_root.string()), errno));
  auto added = compress(fd, limit, file, output.get(), temporary);
  const auto kept = [&]() -> Result<void> {
    if (!added) return fail(added.error());
    const fs::path place = place_of(added->sha256);
    TRY(base::make_directories(place.parent_path(), 0700));
    if (::rename(temporary.c_str(), place.c_str()) == 0) return {};
    return fail(base::errno_error(fmt::format("cannot write {}", place.string()), errno));
  }();
  if (kept) return added;
  ::unlink(temporary.c_str());
  return fail(kept.error());
}

Result<void> SnapshotObjects::extract(const std::string& sha256, const fs::path& into, mode_t mode) const {
  const fs::path object = place_of(sha256);
  if (!contains(sha256)) return fail(ErrorCode::not_found, fmt::format("{} is not in the snapshots", object.string()));
  const base::Fd fd = TRY(base::open_file(into, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
  base::Sha256 hash;
  auto done = decompress(object, into, fd.get(), hash);
  if (done && base::to_hex(hash.finish()) != sha256)
    done = fail(ErrorCode::corrupt, fmt::format("{} holds other bytes than its name says", object.string()));
  if (!done) ::unlink(into.c_str());
  if (!done && done.error().code == ErrorCode::corrupt) ::unlink(object.c_str());
  return done;
}

}  // namespace startrail::run
