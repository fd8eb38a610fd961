#include "image/oci/write_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "image/oci/compression.hpp"

namespace startrail::image {
namespace {

// Bytes go in, in order; packed ones come out, in order; what is between is packed by any worker.
class PackedFile {
 public:
  PackedFile(base::Fd file, const fs::path& name, const WritingOptions& options, Workers& workers)
      : m_file(std::move(file)), m_name(name), m_options(options), m_workers(workers) {}

  Result<void> add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto room = TRY(this->room());
      const std::size_t count = std::min(room.size(), bytes.size());
      std::copy_n(bytes.begin(), count, room.begin());
      m_filled += count;
      bytes = bytes.subspan(count);
    }
    return {};
  }

  Result<void> add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

  // The place that the next bytes go to, so that files are read right into it; `filled` tells how many were.
  Result<std::span<std::byte>> room() {
    if (m_filled == k_piece) TRY(send());
    if (m_piece == nullptr) m_piece = std::make_shared<std::vector<std::byte>>(k_piece);
    return std::span(*m_piece).subspan(m_filled);
  }
  void filled(std::size_t count) { m_filled += count; }

  Result<WrittenLayer> finish() {
    if (m_filled > 0) TRY(send());
    while (!m_waiting.empty()) TRY(take());
    return WrittenLayer{.blob = {.media_type = std::string(layer_media_type(m_options.compression)),
                                 .digest = "sha256:" + base::to_hex(m_blob.finish()),
                                 .size = m_size},
                        .diff_id = "sha256:" + base::to_hex(m_diff.finish())};
  }

 private:
  Result<void> send() {
    m_piece->resize(m_filled);
    m_waiting.push_back(
        m_workers.submit([piece = m_piece, compression = m_options.compression] { return pack(compression, *piece); }));
    m_diff.update(*m_piece);  // beside the packing
    if (m_options.on_bytes) m_options.on_bytes(m_filled);
    m_piece.reset();
    m_filled = 0;
    while (m_waiting.size() >= m_options.pieces) TRY(take());
    return {};
  }

  Result<void> take() {
    const auto packed = TRY(m_waiting.front().get());
    m_waiting.pop_front();
    m_blob.update(packed);
    m_size += packed.size();
    return base::write_all(m_file.get(), {reinterpret_cast<const char*>(packed.data()), packed.size()}, m_name);
  }

  base::Fd m_file;
  const fs::path& m_name;
  const WritingOptions& m_options;
  Workers& m_workers;
  std::shared_ptr<std::vector<std::byte>> m_piece;
  std::size_t m_filled = 0;
  std::deque<std::future<Workers::Packed>> m_waiting;
  base::Sha256 m_blob, m_diff;
  std::uint64_t m_size = 0;
};

std::unexpected<Error> changed(const LayerItem& item) {
  return base::fail(base::error(ErrorCode::corrupt, fmt::format("{} has another size than it had", item.file.string()))
                        .with_hint("`trail image verify-store` shows what is damaged"));
}

Result<void> add_content(PackedFile& packed, const LayerItem& item) {
  const base::Fd file = TRY(base::open_file(item.file, O_RDONLY | O_NOFOLLOW));
  for (std::uint64_t left = item.item.size; left > 0;) {
    const auto room = TRY(packed.room());
    const ssize_t count =
        ::read(file.get(), room.data(), static_cast<std::size_t>(std::min<std::uint64_t>(left, room.size())));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::fail(base::errno_error(fmt::format("cannot read {}", item.file.string()), errno));
    if (count == 0) return changed(item);
    packed.filled(static_cast<std::size_t>(count));
    left -= static_cast<std::uint64_t>(count);
  }
  char one = 0;
  if (::read(file.get(), &one, 1) > 0) return changed(item);
  return packed.add(std::string(tar_padding(item.item.size), '\0'));
}

}  // namespace

Result<WrittenLayer> write_layer(const PlannedLayer& layer, const fs::path& name, const WritingOptions& options,
                                 Workers& workers) {
  PackedFile packed(TRY(base::open_file(name, O_WRONLY | O_CREAT | O_EXCL, 0600)), name, options, workers);
  for (const LayerItem& item : TRY(layer.items())) {
    TRY(packed.add(tar_header(item.item)));
    if (item.item.kind == TarItem::Kind::file && item.item.size > 0) TRY(add_content(packed, item));
  }
  TRY(packed.add(std::string(k_tar_end, '\0')));
  return packed.finish();
}

}  // namespace startrail::image
