#include "image/oci/unpack_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "image/base_system.hpp"
#include "image/beneath.hpp"
#include "image/oci/compression.hpp"
#include "image/oci/piece_queue.hpp"
#include "image/oci/tar_reader.hpp"
#include "image/tree_listing.hpp"

namespace startrail::image {
namespace {

constexpr std::size_t k_read = 256U << 10U;
constexpr std::size_t k_expanded = 1U << 20U;
constexpr std::size_t k_most_entries = 2'000'000;
constexpr std::size_t k_most_names = 256U << 20U;                   // bytes of them: they are kept in memory
constexpr std::size_t k_most_behind = 64U << 20U;                   // the archive's end: padding, no content
constexpr std::size_t k_longest_path = 4096, k_longest_name = 255;  // as Linux has them
constexpr std::string_view k_whiteout = ".wh.", k_opaque = ".wh..wh..opq";

std::string short_digest(const std::string& digest) {
  return digest.substr(0, std::min<std::size_t>(digest.size(), 19));
}

// The source's side: bytes are read, hashed and expanded, and what comes of them is hashed as well.
class Arrival {
 public:
  Arrival(ImageSource& source, const LayerOrder& order, PieceQueue& queue,
          const std::function<void(std::uint64_t)>& on_bytes)
      : m_source(source), m_order(order), m_queue(queue), m_on_bytes(on_bytes) {}

  void run() { m_queue.end(read_all()); }

 private:
  Result<void> read_all() {
    const auto reader = TRY(m_source.open(m_order.blob));
    std::vector<std::byte> buffer(k_read);
    for (;;) {
      const std::size_t count = TRY(reader->read(buffer));
      if (count == 0) break;
      const auto piece = std::span<const std::byte>(buffer).first(count);
      m_blob.update(piece);
      m_size += count;
      m_on_bytes(count);
      if (!TRY(expand(piece))) return {};  // nobody reads any more
    }
    TRY(expand({}));
    flush();
    TRY(m_expander.finish());
    return compare();
  }

  Result<bool> expand(std::span<const std::byte> piece) {
    for (;;) {
      if (m_piece.empty()) m_piece.resize(k_expanded);
      const auto step = TRY(m_expander.step(piece, std::span(m_piece).subspan(m_filled)));
      piece = piece.subspan(step.consumed);
      m_filled += step.produced;
      if (m_filled == m_piece.size()) {
        if (!flush()) return false;
        continue;  // there may be more where that came from
      }
      if (piece.empty() && step.produced == 0) return true;
    }
  }

  bool flush() {
    if (m_filled == 0) return true;
    m_piece.resize(m_filled);
    m_diff.update(m_piece);
    m_filled = 0;
    return m_queue.push(std::exchange(m_piece, {}));
  }

  Result<void> compare() {
    const std::string blob = "sha256:" + base::to_hex(m_blob.finish());
    if (m_order.blob.size != 0 && m_size != m_order.blob.size)
      return base::fail(ErrorCode::corrupt, fmt::format("layer {} has {} bytes; its manifest says {}",
                                                        short_digest(m_order.blob.digest), m_size, m_order.blob.size));
    if (blob != m_order.blob.digest)
      return base::fail(ErrorCode::hash_mismatch,
                        fmt::format("layer {} arrived as {}", short_digest(m_order.blob.digest), short_digest(blob)));
    const std::string diff = "sha256:" + base::to_hex(m_diff.finish());
    if (diff != m_order.diff_id)
      return base::fail(ErrorCode::hash_mismatch, fmt::format("layer {} holds {}; the image's config promises {}",
                                                              short_digest(m_order.blob.digest), short_digest(diff),
                                                              short_digest(m_order.diff_id)));
    return {};
  }

  ImageSource& m_source;
  const LayerOrder& m_order;
  PieceQueue& m_queue;
  const std::function<void(std::uint64_t)>& m_on_bytes;
  Expander m_expander;
  base::Sha256 m_blob, m_diff;
  std::uint64_t m_size = 0;
  PieceQueue::Piece m_piece;
  std::size_t m_filled = 0;
};

// Names are kept as JSON has them (UTF-8), and a base's digest is made of lines of them: other names would be changed,
// or could pass for several. "" when this is a name as the store keeps it.
std::string_view fault_of(const std::string& name) {
  if (has_control_character(name)) return "has a control character";
  return is_utf8(name) ? "" : "is no UTF-8";
}

// A store's owner must be able to read what is in it, or it can't be checked, copied or exported: /etc/shadow with the
// mode 0000, as some distributions have it, is 0400 here.
mode_t kept_mode(const TarEntry& entry) {
  const bool is_folder = entry.kind == TarEntry::Kind::folder;
  return safe_mode(entry.mode, is_folder ? FileType::folder : FileType::file) | (is_folder ? S_IRWXU : S_IRUSR);
}

// A link that leads out of the root if each ".." is counted: nothing outside may be meant, not even by mistake.
bool leaves_root(const std::string& path, const std::string& target) {
  if (target.starts_with('/')) return false;  // the container's own root
  const fs::path joined = (fs::path(path).parent_path() / target).lexically_normal();
  return !joined.empty() && *joined.begin() == "..";
}

// The store's side: the archive's entries are written as numbered files.
class Writing {
 public:
  Writing(const Beneath& root, ByteInput& input, WritingRoom& room) : m_root(root), m_input(input), m_room(room) {}

  Result<LayerContents> run() {
    TarReader tar(m_input);
    while (auto entry = TRY(tar.next())) {
      m_names += entry->path.size() + entry->target.size();
      if (m_contents.entries.size() == k_most_entries || m_names > k_most_names)
        return base::fail(ErrorCode::no_space,
                          fmt::format("the layer has too many entries, from '{}' on", entry->path));
      TRY(take(*entry, tar));
    }
    TRY(read_to_the_end());
    return std::move(m_contents);
  }

 private:
  // What is behind the archive's end is part of both digests.
  Result<void> read_to_the_end() {
    for (std::size_t behind = 0;;) {
      const std::size_t count = TRY(m_input.next(k_expanded)).size();
      if (count == 0) return {};
      behind += count;
      if (behind > k_most_behind) return base::fail(ErrorCode::corrupt, "the layer goes on behind its archive's end");
    }
  }

  Result<void> take(const TarEntry& found, TarReader& tar) {
    LayerEntry entry{.path = TRY(plain_path(found.path)), .modified = found.modified, .digest = {}, .target = {}};
    if (found.kind == TarEntry::Kind::device || found.kind == TarEntry::Kind::pipe) return skip(found, entry.path);
    if (entry.path.empty()) return {};  // the root: its mode is ours
    if (is_whiteout(entry)) return keep(std::move(entry));
    entry.mode = kept_mode(found);
    switch (found.kind) {
      case TarEntry::Kind::folder: entry.kind = LayerEntry::Kind::folder; break;
      case TarEntry::Kind::symlink: TRY(take_symlink(entry, found)); break;
      case TarEntry::Kind::hard_link:
        entry.kind = LayerEntry::Kind::hard_link;
        entry.target = TRY(plain_path(found.target));
        break;
      default: TRY(write_file(entry, found, tar));
    }
    return keep(std::move(entry));
  }

  // Whatever it is, it takes an inode or a line of the layer's contents.
  Result<void> keep(LayerEntry entry) {
    if (!m_room.take(k_entry_overhead))
      return base::fail(ErrorCode::no_space, fmt::format("the disk has no room for '{}'", entry.path));
    m_contents.entries.push_back(std::move(entry));
    return {};
  }

  // A run's /dev is made for it, and pipes are for whoever runs: nothing is lost. Anywhere else a device is an attack.
  Result<void> skip(const TarEntry& found, const std::string& path) {
    if (found.kind == TarEntry::Kind::device && path != "dev" && !path.starts_with("dev/"))
      return base::fail(ErrorCode::unsafe_path, fmt::format("'{}' is a device outside of /dev", found.path));
    m_contents.skipped.push_back(path);
    return {};
  }

  static bool is_whiteout(LayerEntry& entry) {
    const std::size_t slash = entry.path.rfind('/');
    const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
    const std::string_view name = std::string_view(entry.path).substr(start);
    if (!name.starts_with(k_whiteout)) return false;
    const bool opaque = name == k_opaque;
    entry.kind = opaque ? LayerEntry::Kind::opaque : LayerEntry::Kind::whiteout;
    entry.path = opaque ? entry.path.substr(0, slash == std::string::npos ? 0 : slash)
                        : entry.path.substr(0, start) + std::string(name.substr(k_whiteout.size()));
    return true;
  }

  static Result<void> take_symlink(LayerEntry& entry, const TarEntry& found) {
    entry.kind = LayerEntry::Kind::symlink;
    entry.target = found.target;
    if (found.target.empty() || found.target.size() >= k_longest_path)
      return base::fail(ErrorCode::corrupt, fmt::format("'{}' is a link without a target", found.path));
    if (const auto fault = fault_of(found.target); !fault.empty())
      return base::fail(ErrorCode::unsafe_path, fmt::format("'{}' is a link to '{}', which {}", entry.path,
                                                            percent_escaped(found.target), fault));
    if (!leaves_root(entry.path, found.target)) return {};
    return base::fail(ErrorCode::unsafe_path,
                      fmt::format("'{}' is a link that leaves the image: {}", found.path, found.target));
  }

  Result<void> write_file(LayerEntry& entry, const TarEntry& found, TarReader& tar) {
    if (!m_room.take(found.size))
      return base::fail(ErrorCode::no_space,
                        fmt::format("'{}' has {}: more than the disk holds", found.path, to_text(Bytes{found.size})));
    entry.kind = LayerEntry::Kind::file;
    entry.size = found.size;
    entry.number = m_next++;
    const base::Fd file = TRY(m_root.create("files/" + std::to_string(entry.number), 0600));
    base::Sha256 hash;
    for (;;) {
      const auto piece = TRY(tar.content());
      if (piece.empty()) break;
      hash.update(piece);
      TRY(base::write_all(file.get(), {reinterpret_cast<const char*>(piece.data()), piece.size()}, found.path));
    }
    entry.digest = base::to_hex(hash.finish());
    m_contents.size += entry.size;
    // Python's bytecode is checked by its source's time.
    const timespec times[2] = {{.tv_sec = entry.modified, .tv_nsec = 0}, {.tv_sec = entry.modified, .tv_nsec = 0}};
    if (::fchmod(file.get(), entry.mode) == 0 && ::futimens(file.get(), times) == 0) return {};
    return base::fail(base::errno_error("cannot set mode and time of " + found.path, errno));
  }

  static constexpr std::uint64_t k_entry_overhead = 512;  // of a filesystem, for each entry
  const Beneath& m_root;
  ByteInput& m_input;
  WritingRoom& m_room;
  LayerContents m_contents;
  std::size_t m_names = 0;
  unsigned m_next = 0;
};

Result<LayerContents> fill(const fs::path& staging, ImageSource& source, const LayerOrder& order, WritingRoom& room,
                           const std::function<void(std::uint64_t)>& on_bytes) {
  TRY(base::make_directories(staging / "files"));
  const Beneath root = TRY(Beneath::open(staging));
  PieceQueue queue;
  const std::jthread arriving([&] { Arrival(source, order, queue, on_bytes).run(); });
  auto written = Writing(root, queue, room).run();
  queue.leave();
  return written;
}

bool is_the_sources_fault(ErrorCode code) {
  return code == ErrorCode::corrupt || code == ErrorCode::hash_mismatch || code == ErrorCode::unsafe_path;
}

}  // namespace

Result<std::string> plain_path(const std::string& path) {
  const auto unsafe = [&](std::string_view why) {
    return base::fail(ErrorCode::unsafe_path, fmt::format("'{}' in the layer {}", path, why));
  };
  if (const auto fault = fault_of(path); !fault.empty())
    return base::fail(ErrorCode::unsafe_path, fmt::format("'{}' in the layer {}", percent_escaped(path), fault));
  if (path.starts_with('/')) return unsafe("is an absolute path");
  if (path.size() >= k_longest_path) return unsafe("is too long");
  std::string plain;
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = std::string_view(path).substr(start, end - start);
    start = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return unsafe("would leave the image");
    if (part.size() > k_longest_name) return unsafe("has a name that is too long");
    if (!plain.empty()) plain += '/';
    plain += part;
  }
  return plain;
}

Result<void> unpack_layer(const Store& store, ImageSource& source, const LayerOrder& order, WritingRoom& room,
                          const std::function<void(std::uint64_t)>& on_bytes) {
  const std::string key = "layer-" + store.layer(order.diff_id).filename().string();
  const base::FileLock lock = TRY(store.lock(key));
  if (has_layer(store, order.diff_id)) {  // whoever held the lock before made it
    source.finished(order.blob);
    return {};
  }
  const fs::path staging = store.staging(key);
  auto contents = fill(staging, source, order, room, on_bytes);
  if (!contents) {
    if (is_the_sources_fault(contents.error().code)) source.spoiled(order.blob);
    (void)base::remove_tree(staging);
    return base::fail(
        std::move(contents.error())
            .with_context(fmt::format("in layer {} of {}", short_digest(order.blob.digest), source.name())));
  }
  contents->diff_id = order.diff_id;
  TRY(base::write_file_atomic(staging / "contents.json", contents_text(*contents), 0444));
  TRY(store.publish(key, store.layer(order.diff_id)));
  source.finished(order.blob);
  return {};
}

}  // namespace startrail::image
