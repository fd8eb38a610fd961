#include "image/oci/archive_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/beneath.hpp"
#include "image/oci/compression.hpp"
#include "image/oci/tar_reader.hpp"

namespace startrail::image {
namespace {

Result<std::uint64_t> size_of(const base::Fd& file, const fs::path& name) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return base::fail(base::errno_error("cannot read " + name.string(), errno));
  if (!S_ISREG(status.st_mode))
    return base::fail(ErrorCode::invalid_input, fmt::format("{} is not a file", name.string()));
  return static_cast<std::uint64_t>(status.st_size);
}

class ExpandedReader final : public BlobReader {
 public:
  explicit ExpandedReader(std::unique_ptr<BlobReader> packed) : m_packed(std::move(packed)) {}
  Result<std::size_t> read(std::span<std::byte> buffer) override {
    for (;;) {
      if (m_waiting.empty() && !m_at_end) {
        const std::size_t count = TRY(m_packed->read(m_buffer));
        m_waiting = std::span<const std::byte>(m_buffer).first(count);
        m_at_end = count == 0;
      }
      const auto step = TRY(m_expander.step(m_waiting, buffer));
      m_waiting = m_waiting.subspan(step.consumed);
      if (step.produced > 0) return step.produced;
      if (!m_at_end) continue;
      TRY(m_expander.finish());
      return std::size_t{0};
    }
  }

 private:
  std::unique_ptr<BlobReader> m_packed;
  Expander m_expander;
  std::vector<std::byte> m_buffer = std::vector<std::byte>(256U << 10U);
  std::span<const std::byte> m_waiting;
  bool m_at_end = false;
};

class FolderFiles final : public ArchiveFiles {
 public:
  explicit FolderFiles(Beneath root) : m_root(std::move(root)) {}
  Result<Place> find(const std::string& path) const override {
    Place place{.file = TRY(m_root.open_for_reading(path))};
    place.size = TRY(size_of(place.file, m_root.path() / path));
    return place;
  }

 private:
  Beneath m_root;
};

// Reads a file where it is wanted, and passes over the rest without reading it.
class SeekingInput final : public ByteInput {
 public:
  SeekingInput(const base::Fd& file, std::uint64_t size) : m_file(file), m_size(size) {}
  Result<std::span<const std::byte>> next(std::size_t most) override {
    const ssize_t count =
        ::pread(m_file.get(), m_buffer.data(), std::min(most, m_buffer.size()), static_cast<off_t>(m_at));
    if (count < 0) return base::fail(base::errno_error("cannot read the archive", errno));
    m_at += static_cast<std::uint64_t>(count);
    return std::span<const std::byte>(m_buffer).first(static_cast<std::size_t>(count));
  }
  Result<void> skip(std::uint64_t count) override {
    if (count > m_size - std::min(m_at, m_size)) return base::fail(ErrorCode::corrupt, "its tar archive ends early");
    m_at += count;
    return {};
  }

 private:
  const base::Fd& m_file;
  std::uint64_t m_size, m_at = 0;
  std::array<std::byte, 4096> m_buffer{};
};

class TarFiles final : public ArchiveFiles {
 public:
  TarFiles(base::Fd file, fs::path name) : m_file(std::move(file)), m_name(std::move(name)) {}

  Result<void> index() {
    constexpr std::size_t k_most = 1'000'000;
    const std::uint64_t size = TRY(size_of(m_file, m_name));
    SeekingInput input(m_file, size);
    TarReader tar(input);
    while (const auto entry = TRY(tar.next())) {
      if (m_members.size() == k_most) return base::fail(ErrorCode::corrupt, "its tar archive has too many entries");
      const std::string path = fs::path(entry->path).lexically_normal().string();
      const fs::path folder = entry->kind == TarEntry::Kind::symlink ? fs::path(path).parent_path() : fs::path();
      if (entry->kind == TarEntry::Kind::file) m_members[path] = {.offset = entry->offset, .size = entry->size};
      if (!entry->target.empty()) m_members[path] = {.link = (folder / entry->target).lexically_normal().string()};
    }
    return {};
  }

  Result<Place> find(const std::string& path) const override {
    constexpr int k_most_links = 8;  // `docker save` wrote a layer that is there already as a link to it
    auto member = m_members.find(path);
    for (int links = 0; member != m_members.end() && !member->second.link.empty() && links < k_most_links; ++links)
      member = m_members.find(member->second.link);
    if (member == m_members.end() || !member->second.link.empty())
      return base::fail(ErrorCode::not_found, fmt::format("{} has no {}", m_name.string(), path));
    base::Fd file(::fcntl(m_file.get(), F_DUPFD_CLOEXEC, 0));
    if (!file.valid()) return base::fail(base::errno_error("cannot read " + m_name.string(), errno));
    return Place{.file = std::move(file), .offset = member->second.offset, .size = member->second.size};
  }

 private:
  struct Member {
    std::uint64_t offset = 0, size = 0;
    std::string link = {};
  };
  base::Fd m_file;
  fs::path m_name;
  std::map<std::string, Member> m_members;
};

bool is_packed(const base::Fd& file) {
  std::array<unsigned char, 4> start{};
  if (::pread(file.get(), start.data(), start.size(), 0) != static_cast<ssize_t>(start.size())) return false;
  return (start[0] == 0x1f && start[1] == 0x8b) ||
         (start[0] == 0x28 && start[1] == 0xb5 && start[2] == 0x2f && start[3] == 0xfd);
}

std::unexpected<Error> no_room(const fs::path& scratch, Bytes free) {
  return base::fail(base::error(ErrorCode::no_space, fmt::format("the archive expands to more than {} has: {} are free",
                                                                 scratch.string(), to_text(free)))
                        .with_hint("`trail image prune --unused 30d` removes images that are not used")
                        .with_hint("or set STARTRAIL_HOME to a folder on a larger disk"));
}

// Its members are wanted side by side, so all of it must be there at once.
Result<base::Fd> expand_into(const fs::path& scratch, base::Fd packed, std::uint64_t size) {
  constexpr std::uint64_t k_reserve = 64ULL << 20U;  // a disk filled to the brim stops everybody's work
  const Bytes free = TRY(base::free_space(scratch));
  base::Fd file = TRY(base::open_file(scratch, O_RDWR | O_TMPFILE, 0600));
  ExpandedReader reader(std::make_unique<FileReader>(std::move(packed), 0, size));
  std::vector<std::byte> buffer(1U << 20U);
  for (std::uint64_t written = 0;;) {
    const std::size_t count = TRY(reader.read(buffer));
    if (count == 0) return file;
    written += count;
    if (written + k_reserve > free.count) return no_room(scratch, free);
    TRY(base::write_all(file.get(), {reinterpret_cast<const char*>(buffer.data()), count}, scratch));
  }
}

}  // namespace

Result<std::size_t> FileReader::read(std::span<std::byte> buffer) {
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(m_left, buffer.size()));
  if (most == 0) return std::size_t{0};
  ssize_t count = -1;
  while ((count = ::pread(m_file.get(), buffer.data(), most, static_cast<off_t>(m_offset))) < 0 && errno == EINTR) {
  }
  if (count < 0) return base::fail(base::errno_error("cannot read the archive", errno));
  if (count == 0) return base::fail(ErrorCode::corrupt, "the archive ends early");
  m_offset += static_cast<std::uint64_t>(count);
  m_left -= static_cast<std::uint64_t>(count);
  return static_cast<std::size_t>(count);
}

std::unique_ptr<BlobReader> expanded(std::unique_ptr<BlobReader> packed) {
  return std::make_unique<ExpandedReader>(std::move(packed));
}

Result<std::string> ArchiveFiles::read(const std::string& path, Bytes limit) const {
  Place place = TRY(find(path));
  if (place.size > limit.count)
    return base::fail(ErrorCode::invalid_input, fmt::format("{} is larger than {}", path, to_text(limit)));
  std::string content(place.size, '\0');
  FileReader reader(std::move(place.file), place.offset, place.size);
  for (std::size_t have = 0; have < content.size();)
    have += TRY(reader.read(std::as_writable_bytes(std::span(content)).subspan(have)));
  return content;
}

Result<std::unique_ptr<BlobReader>> ArchiveFiles::open(const std::string& path) const {
  Place place = TRY(find(path));
  return std::make_unique<FileReader>(std::move(place.file), place.offset, place.size);
}

Result<std::unique_ptr<ArchiveFiles>> open_archive_files(const fs::path& path, const fs::path& scratch) {
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    Beneath folder = TRY(Beneath::open(path));
    return std::make_unique<FolderFiles>(std::move(folder));
  }
  base::Fd file = TRY(base::open_file(path, O_RDONLY));
  const std::uint64_t size = TRY(size_of(file, path));
  if (is_packed(file)) {
    TRY(base::make_directories(scratch));
    file = TRY_CONTEXT(expand_into(scratch, std::move(file), size), "while expanding " + path.string());
  }
  auto tar = std::make_unique<TarFiles>(std::move(file), path);
  if (const auto indexed = tar->index(); !indexed)
    return base::fail(
        base::error(indexed.error().code, fmt::format("{} is no tar archive, or a damaged one", path.string()))
            .with_context(indexed.error().message));
  return tar;
}

}  // namespace startrail::image
