#include "image/inflater.hpp"

#include <isa-l.h>

#include <fmt/format.h>

namespace startrail::image {
namespace {

std::uint8_t* input_bytes(std::span<const std::byte> bytes) {
  // The C interface lacks a const; it only reads.
  return reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(bytes.data()));
}

std::unexpected<Error> damaged(int code) {
  return base::fail(ErrorCode::corrupt, fmt::format("its compressed data is damaged (code {})", code));
}

}  // namespace

struct Inflater::State {
  inflate_state stream;
};

Inflater::Inflater() : m_state(new State) {
  reset();
}
Inflater::~Inflater() = default;
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;

void Inflater::reset() {
  isal_inflate_init(&m_state->stream);
  m_state->stream.crc_flag = ISAL_DEFLATE;
}

Result<Inflater::Step> Inflater::step(std::span<const std::byte> input, std::span<std::byte> output) {
  inflate_state& stream = m_state->stream;
  stream.next_in = input_bytes(input);
  stream.avail_in = static_cast<std::uint32_t>(input.size());
  stream.next_out = reinterpret_cast<std::uint8_t*>(output.data());
  stream.avail_out = static_cast<std::uint32_t>(output.size());
  if (const int code = isal_inflate(&stream); code != ISAL_DECOMP_OK && code != ISAL_END_INPUT) return damaged(code);
  // Bits read ahead are given back at the end; more than came in this step means data behind the stream's end.
  if (stream.avail_in > input.size()) return base::fail(ErrorCode::corrupt, "its compressed data ends early");
  return Step{.consumed = input.size() - stream.avail_in,
              .produced = output.size() - stream.avail_out,
              .ended = stream.block_state == ISAL_BLOCK_FINISH};
}

Result<void> Inflater::whole(std::span<const std::byte> input, std::span<std::byte> output) {
  inflate_state& stream = m_state->stream;
  reset();
  stream.next_in = input_bytes(input);
  stream.avail_in = static_cast<std::uint32_t>(input.size());
  stream.next_out = reinterpret_cast<std::uint8_t*>(output.data());
  stream.avail_out = static_cast<std::uint32_t>(output.size());
  if (const int code = isal_inflate_stateless(&stream); code != ISAL_DECOMP_OK) return damaged(code);
  if (stream.block_state != ISAL_BLOCK_FINISH || stream.avail_in != 0 || stream.avail_out != 0)
    return base::fail(ErrorCode::corrupt, "its compressed data and its announced size differ");
  return {};
}

std::uint32_t crc32(std::uint32_t so_far, std::span<const std::byte> bytes) {
  return crc32_gzip_refl(so_far, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace startrail::image
