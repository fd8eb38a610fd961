#include "image/oci/tar_writer.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace startrail::image {
namespace {

constexpr std::uint64_t k_largest_octal = 077777777777ULL;  // eleven digits
using Block = std::array<char, 512>;

void put(Block& block, std::size_t offset, std::string_view text) {
  std::memcpy(block.data() + offset, text.data(), text.size());
}

char type_of(TarItem::Kind kind) {
  switch (kind) {
    case TarItem::Kind::file: return '0';
    case TarItem::Kind::hard_link: return '1';
    case TarItem::Kind::symlink: return '2';
    case TarItem::Kind::folder: return '5';
  }
  return '0';
}

std::string header(std::string_view path, char type, std::string_view target, std::uint64_t size, mode_t mode,
                   std::int64_t modified) {
  Block block{};
  put(block, 0, path.substr(0, 100));
  put(block, 100, fmt::format("{:07o}", mode & 07777U));
  put(block, 108, "0000000");
  put(block, 116, "0000000");
  put(block, 124, fmt::format("{:011o}", size > k_largest_octal ? 0 : size));
  put(block, 136, fmt::format("{:011o}", static_cast<std::uint64_t>(modified < 0 ? 0 : modified)));
  put(block, 148, "        ");
  block[156] = type;
  put(block, 157, target.substr(0, 100));
  put(block, 257, std::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char letter : block) sum += static_cast<unsigned char>(letter);
  put(block, 148, std::string_view(fmt::format("{:06o}", sum) + std::string("\0 ", 2)));
  return {block.data(), block.size()};
}

// The length counts its own digits.
std::string record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (length != rest + std::to_string(length).size()) length = rest + std::to_string(length).size();
  return fmt::format("{} {}={}\n", length, key, value);
}

}  // namespace

std::size_t tar_padding(std::uint64_t size) {
  return static_cast<std::size_t>((512 - size % 512) % 512);
}

std::string tar_header(const TarItem& item) {
  const std::string path = item.kind == TarItem::Kind::folder ? item.path + "/" : item.path;
  std::string records;
  if (path.size() > 100) records += record("path", path);
  if (item.target.size() > 100) records += record("linkpath", item.target);
  if (item.size > k_largest_octal) records += record("size", std::to_string(item.size));
  std::string result;
  if (!records.empty()) {
    result = header("pax", 'x', "", records.size(), 0644, k_constant_time) + records;
    result.append(tar_padding(records.size()), '\0');
  }
  return result + header(path, type_of(item.kind), item.target, item.size, item.mode, item.modified);
}

}  // namespace startrail::image
