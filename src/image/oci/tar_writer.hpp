// Tar headers that depend on nothing but the entry: owner 0, no names of users, pax only where ustar can't.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

#include "base/error.hpp"

namespace startrail::image {

// What files without a time of their own get: 1980-01-01, which zip archives can hold as well (SOURCE_DATE_EPOCH's
// idea).
inline constexpr std::int64_t k_constant_time = 315532800;

struct TarItem {
  enum class Kind { file, folder, symlink, hard_link };
  Kind kind = Kind::file;
  std::string path;    // relative, without a slash at the end
  std::string target;  // of a link
  std::uint64_t size = 0;
  mode_t mode = 0;
  std::int64_t modified = k_constant_time;
};

// Its header, and the pax header before it where one is needed: whole blocks.
[[nodiscard]] std::string tar_header(const TarItem& item);
// Zeros up to a whole block behind content of this size.
[[nodiscard]] std::size_t tar_padding(std::uint64_t size);
inline constexpr std::size_t k_tar_end = 1024;  // zeros behind the last entry

}  // namespace startrail::image
