#include "image/oci/compression.hpp"

#include <isa-l.h>
#include <libdeflate.h>
#include <zstd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace startrail::image {
namespace {

// Levels are a part of what a layer's digest stands for: another level, another digest.
constexpr int k_zstd_level = 3;
// libdeflate gives the same bytes on every processor; ISA-L's faster compressor has another search for each kind.
constexpr int k_gzip_level = 3;

struct FreeZstdOut {
  void operator()(ZSTD_CCtx* context) const { ::ZSTD_freeCCtx(context); }
};
struct FreeZstdIn {
  void operator()(ZSTD_DCtx* context) const { ::ZSTD_freeDCtx(context); }
};
struct FreeDeflate {
  void operator()(libdeflate_compressor* compressor) const { ::libdeflate_free_compressor(compressor); }
};

Result<std::vector<std::byte>> pack_zstd(std::span<const std::byte> piece) {
  // One for each thread: its tables are megabytes.
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeZstdOut> s_context(::ZSTD_createCCtx());
  std::vector<std::byte> packed(::ZSTD_compressBound(piece.size()));
  const std::size_t size =
      ::ZSTD_compressCCtx(s_context.get(), packed.data(), packed.size(), piece.data(), piece.size(), k_zstd_level);
  if (::ZSTD_isError(size) != 0) return base::fail(ErrorCode::internal, "a layer can't be compressed");
  packed.resize(size);
  return packed;
}

Result<std::vector<std::byte>> pack_gzip(std::span<const std::byte> piece) {
  thread_local const std::unique_ptr<libdeflate_compressor, FreeDeflate> s_compressor(
      ::libdeflate_alloc_compressor(k_gzip_level));
  std::vector<std::byte> packed(::libdeflate_gzip_compress_bound(s_compressor.get(), piece.size()));
  const std::size_t size =
      ::libdeflate_gzip_compress(s_compressor.get(), piece.data(), piece.size(), packed.data(), packed.size());
  if (size == 0) return base::fail(ErrorCode::internal, "a layer can't be compressed");
  packed.resize(size);
  return packed;
}

enum class Format { unknown, plain, gzip, zstd };

Format format_of(std::span<const std::byte> start) {
  const auto is = [&](std::initializer_list<unsigned> magic) {
    return start.size() >= magic.size() &&
           std::ranges::equal(magic, start.first(magic.size()), {}, {},
                              [](std::byte byte) { return std::to_integer<unsigned>(byte); });
  };
  if (is({0x1f, 0x8b})) return Format::gzip;
  if (is({0x28, 0xb5, 0x2f, 0xfd})) return Format::zstd;
  // A skippable frame may come first (RFC 8878, 3.1.2).
  if (start.size() >= 4 && (std::to_integer<unsigned>(start[0]) & 0xf0U) == 0x50 &&
      is({std::to_integer<unsigned>(start[0]), 0x2a, 0x4d, 0x18}))
    return Format::zstd;
  return Format::plain;
}

std::unexpected<Error> damaged(std::string_view why) {
  return base::fail(ErrorCode::corrupt, fmt::format("its compressed data is damaged ({})", why));
}

}  // namespace

std::string_view layer_media_type(Compression compression) {
  switch (compression) {
    case Compression::zstd: return "application/vnd.oci.image.layer.v1.tar+zstd";
    case Compression::gzip: return "application/vnd.oci.image.layer.v1.tar+gzip";
    case Compression::none: return "application/vnd.oci.image.layer.v1.tar";
  }
  return "";
}

Result<std::vector<std::byte>> pack(Compression compression, std::span<const std::byte> piece) {
  if (compression == Compression::zstd) return pack_zstd(piece);
  if (compression == Compression::gzip) return pack_gzip(piece);
  return std::vector<std::byte>(piece.begin(), piece.end());
}

struct Expander::State {
  Format format = Format::unknown;
  std::array<std::byte, 4> start{};  // held back until the format is known
  std::size_t held = 0, given = 0;
  inflate_state gzip;
  std::unique_ptr<ZSTD_DCtx, FreeZstdIn> zstd;
  enum class At { between, inside, padding } at = At::between;

  void begin(Format found) {
    format = found;
    if (format == Format::zstd) zstd.reset(::ZSTD_createDCtx());
    if (format == Format::gzip) start_member();
  }

  void start_member() {
    isal_inflate_init(&gzip);
    gzip.crc_flag = ISAL_GZIP;
  }

  Result<Step> step_plain(std::span<const std::byte> input, std::span<std::byte> output) {
    const std::size_t count = std::min(input.size(), output.size());
    std::copy_n(input.begin(), count, output.begin());
    return Step{count, count};
  }

  Result<Step> step_zstd(std::span<const std::byte> input, std::span<std::byte> output) {
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{output.data(), output.size(), 0};
    const std::size_t rest = ::ZSTD_decompressStream(zstd.get(), &out, &in);
    if (::ZSTD_isError(rest) != 0) return damaged(::ZSTD_getErrorName(rest));
    // 0 with nothing done means between frames; a full output may hide that more is to come.
    if (in.pos > 0 || out.pos > 0) at = rest == 0 ? At::between : At::inside;
    return Step{in.pos, out.pos};
  }

  Result<Step> step_gzip(std::span<const std::byte> input, std::span<std::byte> output) {
    if (at == At::between && !input.empty() && input[0] == std::byte{0}) at = At::padding;  // as gzip(1) has it
    if (at == At::padding) return Step{input.size(), 0};
    if (at == At::between && input.empty()) return Step{};
    gzip.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(input.data()));
    gzip.avail_in = static_cast<std::uint32_t>(input.size());
    gzip.next_out = reinterpret_cast<std::uint8_t*>(output.data());
    gzip.avail_out = static_cast<std::uint32_t>(output.size());
    if (const int code = isal_inflate(&gzip); code != ISAL_DECOMP_OK && code != ISAL_END_INPUT)
      return damaged(fmt::format("code {}", code));
    const Step done{input.size() - gzip.avail_in, output.size() - gzip.avail_out};
    at = At::inside;
    if (gzip.block_state == ISAL_BLOCK_FINISH) {
      at = At::between;
      start_member();
    }
    return done;
  }

  Result<Step> step(std::span<const std::byte> input, std::span<std::byte> output) {
    if (format == Format::plain) return step_plain(input, output);
    if (format == Format::zstd) return step_zstd(input, output);
    return step_gzip(input, output);
  }
};

Expander::Expander() : m_state(new State) {}
Expander::~Expander() = default;

Result<Expander::Step> Expander::step(std::span<const std::byte> input, std::span<std::byte> output) {
  State& state = *m_state;
  if (state.format == Format::unknown) {
    const std::size_t count = std::min(input.size(), state.start.size() - state.held);
    std::copy_n(input.begin(), count, state.start.begin() + static_cast<std::ptrdiff_t>(state.held));
    state.held += count;
    // Fewer bytes than that are no archive of any kind, compressed or not.
    if (state.held == state.start.size()) state.begin(format_of(state.start));
    return Step{count, 0};
  }
  if (state.given < state.held) {
    const auto waiting = std::span<const std::byte>(state.start).subspan(state.given, state.held - state.given);
    Step done = TRY(state.step(waiting, output));
    state.given += done.consumed;
    return Step{0, done.produced};
  }
  return state.step(input, output);
}

Result<void> Expander::finish() const {
  const State& state = *m_state;
  if (state.format == Format::unknown ? state.held > 0 : state.at == State::At::inside) return damaged("it ends early");
  return {};
}

}  // namespace startrail::image
