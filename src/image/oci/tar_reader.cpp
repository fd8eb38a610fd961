#include "image/oci/tar_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace startrail::image {
namespace {

constexpr std::uint64_t k_block = 512;
constexpr std::uint64_t k_longest_header = 1U << 20U;  // of a pax header, or a long name
constexpr std::size_t k_most_records = 1000;           // of one entry
constexpr std::uint64_t k_largest = 1ULL << 50U;       // no file is a petabyte: sums stay far from their limits

struct Field {
  std::size_t offset, size;
};
// POSIX.1-1988, "Extended tar format".
constexpr Field k_name{0, 100}, k_mode{100, 8}, k_size{124, 12}, k_time{136, 12}, k_checksum{148, 8}, k_link{157, 100},
    k_magic{257, 6}, k_prefix_field{345, 155};
constexpr std::size_t k_type = 156;

using Block = std::array<char, 512>;

std::string_view raw(const Block& block, Field field) {
  return {block.data() + field.offset, field.size};
}

std::string text(const Block& block, Field field) {
  const std::string_view all = raw(block, field);
  return std::string(all.substr(0, all.find('\0')));
}

std::unexpected<Error> damaged(std::string_view why) {
  return base::fail(ErrorCode::corrupt, fmt::format("its tar archive is damaged: {}", why));
}

// Octal digits, or GNU's base 256 where the first bit is set. A negative one (a time before 1970) is 0.
Result<std::uint64_t> number(const Block& block, Field field) {
  const std::string_view all = raw(block, field);
  std::uint64_t value = 0;
  if ((static_cast<unsigned char>(all.front()) & 0x80U) != 0) {
    if (static_cast<unsigned char>(all.front()) == 0xff) return 0;
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (value > k_largest) return damaged("a number that is too large");
      value = value * 256 + static_cast<unsigned char>(all[i]);
    }
    return value;
  }
  for (const char letter : all.substr(std::min(all.find_first_not_of(' '), all.size()))) {
    if (letter == ' ' || letter == '\0') break;
    if (letter < '0' || letter > '7') return damaged("a number that is none");
    value = value * 8 + static_cast<std::uint64_t>(letter - '0');
  }
  return value;
}

// The sum of all bytes, the checksum's own taken as spaces. Some old writers summed signed bytes.
bool checksum_fits(const Block& block) {
  const auto told = number(block, k_checksum);
  std::uint64_t sum = 0;
  std::int64_t signed_sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= k_checksum.offset && i < k_checksum.offset + k_checksum.size;
    const char letter = own ? ' ' : block[i];
    sum += static_cast<unsigned char>(letter);
    signed_sum += static_cast<signed char>(letter);
  }
  return told && (*told == sum || static_cast<std::int64_t>(*told) == signed_sum);
}

Result<std::uint64_t> decimal(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failed != std::errc() || end != digits.data() + digits.size() || value > k_largest)
    return damaged("a pax header's number is none");
  return value;
}

// "<length> <key>=<value>\n", one after the other.
Result<void> read_records(std::string_view all, std::map<std::string, std::string>& records) {
  while (!all.empty()) {
    const std::size_t space = all.find(' ');
    if (space == std::string_view::npos || space > 8) return damaged("a pax header without a length");
    const std::uint64_t length = TRY(decimal(all.substr(0, space)));
    if (length <= space + 1 || length > all.size() || all[length - 1] != '\n')
      return damaged("a pax header of the wrong length");
    const std::string_view record = all.substr(space + 1, length - space - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return damaged("a pax header without a value");
    records[std::string(record.substr(0, equals))] = record.substr(equals + 1);
    all.remove_prefix(length);
  }
  return {};
}

Result<TarEntry::Kind> kind_of(char type, const std::string& path) {
  using Kind = TarEntry::Kind;
  switch (type) {
    case '\0':
    case '0':
    case '7': return path.ends_with('/') ? Kind::folder : Kind::file;  // so did the tar of Version 7
    case '1': return Kind::hard_link;
    case '2': return Kind::symlink;
    case '3':
    case '4': return Kind::device;
    case '5': return Kind::folder;
    case '6': return Kind::pipe;
    default:
      return base::fail(ErrorCode::unsupported,
                        fmt::format("its tar archive has {} as an entry of the type '{}', which nothing here reads",
                                    path, type >= ' ' && type < 0x7f ? type : '?'));
  }
}

std::string name_of(const Block& block) {
  std::string name = text(block, k_name);
  // GNU's own format keeps other things where POSIX has the prefix.
  if (raw(block, k_magic) != std::string_view("ustar\0", 6)) return name;
  const std::string prefix = text(block, k_prefix_field);
  return prefix.empty() ? name : prefix + "/" + name;
}

}  // namespace

Result<void> ByteInput::skip(std::uint64_t count) {
  while (count > 0) {
    const auto piece = TRY(next(static_cast<std::size_t>(std::min<std::uint64_t>(count, 1U << 20U))));
    if (piece.empty()) return damaged("it ends early");
    count -= piece.size();
  }
  return {};
}

Result<TarReader::Read> TarReader::read_block(Block& block) {
  std::size_t have = 0;
  while (have < block.size()) {
    const auto piece = TRY(m_input.next(block.size() - have));
    if (piece.empty()) {
      if (have == 0) return Read::end;
      return damaged("it ends early");
    }
    std::memcpy(block.data() + have, piece.data(), piece.size());
    have += piece.size();
  }
  m_position += block.size();
  return Read::block;
}

Result<void> TarReader::finish_entry() {
  const std::uint64_t rest = m_left + m_padding;
  if (rest > 0) TRY(m_input.skip(rest));
  m_position += rest;
  m_left = m_padding = 0;
  return {};
}

Result<std::span<const std::byte>> TarReader::content() {
  if (m_left == 0) return std::span<const std::byte>();
  const auto piece = TRY(m_input.next(static_cast<std::size_t>(std::min<std::uint64_t>(m_left, 1U << 20U))));
  if (piece.empty()) return damaged("it ends early");
  m_left -= piece.size();
  m_position += piece.size();
  return piece;
}

Result<std::string> TarReader::read_text(std::uint64_t size) {
  if (size > k_longest_header) return damaged("a header that is too long");
  m_left = size;
  m_padding = (k_block - size % k_block) % k_block;
  std::string all;
  for (;;) {
    const auto piece = TRY(content());
    if (piece.empty()) break;
    all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  TRY(finish_entry());
  return all;
}

Result<TarEntry> TarReader::entry_of(const Block& block, const Records& records) {
  const auto told = [&](const char* key, std::string otherwise) {
    const auto found = records.find(key);
    return found == records.end() ? std::move(otherwise) : found->second;
  };
  TarEntry entry{.path = told("path", name_of(block)), .target = told("linkpath", text(block, k_link))};
  entry.kind = TRY(kind_of(block[k_type], entry.path));
  for (const auto& [key, value] : records)
    if (key.starts_with("GNU.sparse."))
      return base::fail(ErrorCode::unsupported,
                        fmt::format("its tar archive has {} as a sparse file, which nothing here reads", entry.path));
  if (entry.path.find('\0') != std::string::npos || entry.target.find('\0') != std::string::npos)
    return damaged("a name with a zero byte");
  entry.mode = static_cast<mode_t>(TRY(number(block, k_mode)) & 07777U);
  entry.modified = static_cast<std::int64_t>(std::min(TRY(number(block, k_time)), k_largest));
  const auto size = records.find("size");
  const auto told_size = size == records.end() ? number(block, k_size) : decimal(size->second);
  if (!told_size) return base::fail(told_size.error());
  entry.size = *told_size;
  if (entry.size > k_largest) return damaged("a file that is too large");
  // Only files have content; for links some writers name their target's size.
  if (entry.kind != TarEntry::Kind::file) entry.size = 0;
  entry.offset = m_position;
  return entry;
}

Result<std::optional<TarEntry>> TarReader::next() {
  TRY(finish_entry());
  Records records;
  for (Block block;;) {
    if (TRY(read_block(block)) == Read::end) return std::nullopt;
    if (std::ranges::all_of(block, [](char letter) { return letter == '\0'; })) return std::nullopt;
    if (!checksum_fits(block)) return damaged("a header's checksum is wrong");
    const char type = block[k_type];
    if (type == 'x' || type == 'L' || type == 'K') {
      const std::uint64_t size = TRY(number(block, k_size));
      const std::string all = TRY(read_text(size));
      if (records.size() > k_most_records) return damaged("too many pax records");
      if (type == 'x')
        TRY(read_records(all, records));
      else
        records[type == 'L' ? "path" : "linkpath"] = all.substr(0, all.find('\0'));
    } else if (type == 'g') {  // for all that follow: a comment of git's, nothing that decides what a file is
      const std::uint64_t size = TRY(number(block, k_size));
      (void)TRY(read_text(size));
    } else {
      TarEntry entry = TRY(entry_of(block, records));
      m_left = entry.size;
      m_padding = (k_block - entry.size % k_block) % k_block;
      return entry;
    }
  }
}

}  // namespace startrail::image
