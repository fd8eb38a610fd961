#include "image/zip_directory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>

#include <locale.h>
#include <sys/stat.h>
#include <wctype.h>

namespace startrail::image {
namespace {

constexpr std::uint32_t k_local_signature = 0x04034b50, k_central_signature = 0x02014b50, k_end_signature = 0x06054b50,
                        k_end64_signature = 0x06064b50, k_locator_signature = 0x07064b50,
                        k_descriptor_signature = 0x08074b50;
constexpr std::size_t k_end_length = 22, k_locator_length = 20, k_end64_length = 56, k_central_length = 46;
constexpr std::uint16_t k_flag_encrypted = 1U << 0U, k_flag_descriptor = 1U << 3U, k_flag_patched = 1U << 5U,
                        k_flag_strong = 1U << 6U, k_flag_utf8 = 1U << 11U, k_flag_masked = 1U << 13U;
constexpr std::uint16_t k_extra_zip64 = 0x0001, k_extra_unicode_path = 0x7075;
constexpr std::uint32_t k_full32 = 0xffffffff;
constexpr std::uint32_t k_dos_folder = 0x10;
constexpr std::uint16_t k_full16 = 0xffff;

// Little-endian fields, read without assuming alignment; the caller has checked the bounds.
template <class Number>
Number field(std::span<const std::byte> bytes, std::size_t offset) {
  Number value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}
std::uint16_t u16(std::span<const std::byte> bytes, std::size_t offset) {
  return field<std::uint16_t>(bytes, offset);
}
std::uint32_t u32(std::span<const std::byte> bytes, std::size_t offset) {
  return field<std::uint32_t>(bytes, offset);
}
std::uint64_t u64(std::span<const std::byte> bytes, std::size_t offset) {
  return field<std::uint64_t>(bytes, offset);
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unexpected<Error> corrupt(std::string message) {
  return base::fail(ErrorCode::corrupt, std::move(message));
}

std::string shown(std::string_view name) {
  std::string result;
  for (const char letter : name.substr(0, 200)) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte >= 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += letter;
  }
  return '\'' + result + '\'';
}

// The extra field is a list of (id, length, data); one that doesn't add up is refused.
Result<std::optional<std::span<const std::byte>>> extra_field(std::span<const std::byte> extra, std::uint16_t wanted) {
  std::optional<std::span<const std::byte>> found;
  while (!extra.empty()) {
    if (extra.size() < 4 || extra.size() - 4 < u16(extra, 2)) return corrupt("an extra field is cut off");
    const std::uint16_t id = u16(extra, 0);
    const std::size_t length = u16(extra, 2);
    if (id == wanted) {
      if (found) return corrupt("an extra field appears twice");
      found = extra.subspan(4, length);
    }
    extra = extra.subspan(4 + length);
  }
  return found;
}

// APPNOTE 4.5.3: only the fields whose 32-bit place holds 0xffffffff are present, in this order. Some writers always
// put all of them in, and some readers then take the 64-bit ones: what nobody asked for must say the same.
Result<void> apply_zip64(std::span<const std::byte> extra, ZipEntry& entry) {
  const auto found = TRY(extra_field(extra, k_extra_zip64));
  if (!found) return {};
  std::span<const std::byte> rest = *found;
  const std::array targets{&entry.size, &entry.compressed, &entry.header_offset};
  const bool all = rest.size() >= 16 && std::ranges::none_of(targets, [](auto* target) { return *target == k_full32; });
  for (std::uint64_t* target : targets) {
    if (all && rest.size() >= 8) {
      if (u64(rest, 0) != *target) return corrupt("its zip64 field contradicts its sizes");
      rest = rest.subspan(8);
    } else if (*target == k_full32) {
      if (rest.size() < 8) return corrupt("a zip64 field is cut off");
      *target = u64(rest, 0);
      rest = rest.subspan(8);
    }
  }
  // Four bytes more may number the disk, which is the first.
  const bool disk = rest.size() == 4 && u32(rest, 0) == 0;
  if (!rest.empty() && !disk) return corrupt("its zip64 field holds more than was announced");
  return {};
}

// One letter of valid UTF-8, cut off the front.
std::uint32_t take_letter(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  std::uint32_t value = length == 1 ? lead : lead & (0xffU >> (length + 1));
  for (std::size_t next = 1; next < length; ++next)
    value = (value << 6U) | (static_cast<unsigned char>(text[next]) & 0x3fU);
  text.remove_prefix(length);
  return value;
}

// Lower case as the C library's own UTF-8 locale has it, whatever the caller's locale is.
std::string folded(std::string_view name) {
  static const locale_t s_locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string result;
  result.reserve(name.size());
  while (!name.empty()) {
    std::uint32_t letter = take_letter(name);
    if (letter >= 'A' && letter <= 'Z') letter += 'a' - 'A';
    if (letter < 0x80) {
      result += static_cast<char>(letter);
      continue;
    }
    if (s_locale != nullptr) letter = static_cast<std::uint32_t>(::towlower_l(static_cast<wint_t>(letter), s_locale));
    result += fmt::format("\x01{:x};", letter);  // names hold no control characters
  }
  return result;
}

Result<void> check_kind(const ZipEntry& entry, std::uint32_t attributes) {
  const mode_t kind = (attributes >> 16U) & S_IFMT;
  const bool plain = kind == 0 || (entry.is_folder() ? kind == S_IFDIR : kind == S_IFREG);
  const bool folder_by_dos = (attributes & k_dos_folder) != 0;
  if (plain && folder_by_dos && !entry.is_folder())
    return corrupt(fmt::format("{} has the name of a file and the attributes of a folder", shown(entry.name)));
  if (plain) return {};
  const std::string_view what = kind == S_IFLNK ? "a symbolic link" : "neither a file nor a folder";
  return base::fail(ErrorCode::unsafe_path, fmt::format("{} is {}", shown(entry.name), what));
}

Result<void> check_name(const ZipEntry& entry) {
  const std::string_view name = entry.name;
  const bool ascii = std::ranges::all_of(name, [](char letter) { return static_cast<unsigned char>(letter) < 0x80; });
  if (!is_valid_utf8(name)) return corrupt(fmt::format("the name {} is not UTF-8", shown(name)));
  // Without the flag a reader may take the bytes for code page 437 and see another name.
  if (!ascii && (entry.flags & k_flag_utf8) == 0)
    return corrupt(fmt::format("the name {} does not say that it is UTF-8", shown(name)));
  return check_relative_path(entry.is_folder() ? name.substr(0, name.size() - 1) : name);
}

Result<void> check_flags(const ZipEntry& entry, std::uint16_t method) {
  if ((entry.flags & (k_flag_encrypted | k_flag_strong | k_flag_masked)) != 0)
    return corrupt(fmt::format("{} is encrypted", shown(entry.name)));
  if ((entry.flags & k_flag_patched) != 0) return corrupt(fmt::format("{} is a patch", shown(entry.name)));
  if (method != 0 && method != 8)
    return corrupt(fmt::format("{} is compressed by method {}, which wheels do not use", shown(entry.name), method));
  return {};
}

Result<void> check_sizes(const ZipEntry& entry) {
  if (entry.method == ZipMethod::stored && entry.compressed != entry.size)
    return corrupt(fmt::format("{} is stored, but its two sizes differ", shown(entry.name)));
  if (entry.is_folder() && entry.size != 0) return corrupt(fmt::format("the folder {} has content", shown(entry.name)));
  // Deflate cannot do better than 1032:1 (258 bytes from two bits).
  if (entry.compressed < entry.size / 1040)
    return corrupt(fmt::format("{} claims {} bytes from {}, which deflate cannot do", shown(entry.name), entry.size,
                               entry.compressed));
  return {};
}

Result<ZipEntry> read_entry(std::span<const std::byte>& bytes) {
  if (bytes.size() < k_central_length || u32(bytes, 0) != k_central_signature)
    return corrupt("its directory is damaged");
  const std::size_t name_length = u16(bytes, 28);
  const std::size_t extra_length = u16(bytes, 30);
  const std::size_t comment_length = u16(bytes, 32);
  const std::size_t length = k_central_length + name_length + extra_length + comment_length;
  if (bytes.size() < length) return corrupt("its directory is cut off");
  const auto extra = bytes.subspan(k_central_length + name_length, extra_length);
  const std::uint16_t method = u16(bytes, 10);
  const std::uint32_t attributes = u32(bytes, 38);
  ZipEntry entry{.name = std::string(text(bytes.subspan(k_central_length, name_length))),
                 .header_offset = u32(bytes, 42),
                 .compressed = u32(bytes, 20),
                 .size = u32(bytes, 24),
                 .crc = u32(bytes, 16),
                 .flags = u16(bytes, 8),
                 .method = static_cast<ZipMethod>(method),
                 .executable = ((attributes >> 16U) & 0111U) != 0};
  if (u16(bytes, 34) != 0) return corrupt(fmt::format("{} is on another disk", shown(entry.name)));
  TRY_CONTEXT(apply_zip64(extra, entry), "in the directory entry of " + shown(entry.name));
  if (TRY(extra_field(extra, k_extra_unicode_path)))
    return corrupt(fmt::format("{} has a second name in its extra field", shown(entry.name)));
  TRY(check_name(entry));
  TRY(check_kind(entry, attributes));
  TRY(check_flags(entry, method));
  TRY(check_sizes(entry));
  bytes = bytes.subspan(length);
  return entry;
}

// No two entries may claim one place: same name, names equal but for case, a file that is also a folder.
Result<void> check_names_together(const std::vector<ZipEntry>& entries) {
  std::unordered_map<std::string, std::string_view> seen;  // folded path without '/' → name as written
  seen.reserve(entries.size() * 2);
  for (const ZipEntry& entry : entries) {
    const std::string_view name = entry.name;
    const auto [place, added] = seen.emplace(folded(entry.is_folder() ? name.substr(0, name.size() - 1) : name), name);
    if (added) continue;
    const std::string_view other = place->second;
    if (other.ends_with('/') == name.ends_with('/') && other != name)
      return base::fail(ErrorCode::unsafe_path,
                        fmt::format("{} and {} differ only in case", shown(other), shown(name)));
    return corrupt(fmt::format("{} appears twice", shown(name)));
  }
  for (const ZipEntry& entry : entries) {
    const std::string path = folded(entry.name);
    for (auto slash = path.find('/'); slash != std::string::npos && slash + 1 < path.size();
         slash = path.find('/', slash + 1)) {
      const auto parent = seen.find(path.substr(0, slash));
      if (parent != seen.end() && !parent->second.ends_with('/'))
        return corrupt(fmt::format("{} is a file and a folder", shown(parent->second)));
    }
  }
  return {};
}

// Entries lie one behind the other from the first byte to the directory: nothing overlaps, nothing hides.
Result<void> set_ends(std::vector<ZipEntry>& entries, std::uint64_t directory_offset) {
  std::ranges::sort(entries, {}, &ZipEntry::header_offset);
  if (entries.empty() ? directory_offset != 0 : entries.front().header_offset != 0)
    return corrupt("there is data before its first file");
  for (std::size_t index = 0; index < entries.size(); ++index) {
    ZipEntry& entry = entries[index];
    entry.end = index + 1 < entries.size() ? entries[index + 1].header_offset : directory_offset;
    const std::uint64_t least = k_local_header + entry.name.size();
    if (entry.end < entry.header_offset || entry.end - entry.header_offset < least ||
        entry.end - entry.header_offset - least < entry.compressed)
      return corrupt(fmt::format("{} overlaps what follows it", shown(entry.name)));
  }
  return {};
}

Result<void> check_against_bombs(const std::vector<ZipEntry>& entries, const ZipEnd& end, const ZipLimits& limits) {
  std::uint64_t content = 0;
  for (const ZipEntry& entry : entries) {
    if (entry.size > limits.content_size || content + entry.size > limits.content_size)
      return corrupt(
          fmt::format("{} and what stands before it would take over {} bytes", shown(entry.name), limits.content_size));
    content += entry.size;
  }
  if (content > limits.ratio_free_size && content / limits.ratio > end.directory_offset)
    return corrupt(fmt::format("{} bytes would become {}", end.directory_offset, content));
  return {};
}

Result<ZipEnd> read_end64(std::span<const std::byte> tail, std::size_t end_at, std::uint64_t tail_offset) {
  const std::size_t locator_at = end_at - k_locator_length;
  const std::uint64_t record_offset = u64(tail, locator_at + 8);
  if (u32(tail, locator_at + 4) != 0 || u32(tail, locator_at + 16) > 1) return corrupt("it has several disks");
  if (record_offset < tail_offset || locator_at < k_end64_length ||
      record_offset - tail_offset > locator_at - k_end64_length)
    return corrupt("its zip64 end record is not where it should be");
  const auto record = tail.subspan(record_offset - tail_offset);
  if (u32(record, 0) != k_end64_signature || u64(record, 4) + 12 != tail_offset + locator_at - record_offset)
    return corrupt("its zip64 end record is damaged");
  if (u32(record, 16) != 0 || u32(record, 20) != 0 || u64(record, 24) != u64(record, 32))
    return corrupt("it has several disks");
  const ZipEnd end{.directory_offset = u64(record, 48), .directory_size = u64(record, 40), .entries = u64(record, 32)};
  if (end.directory_size > record_offset || end.directory_offset != record_offset - end.directory_size)
    return corrupt("there is data between its directory and its end");
  return end;
}

// The 32-bit record must say the same as the 64-bit one, or "see there".
bool agree(std::span<const std::byte> record, const ZipEnd& end) {
  const auto fits = [](std::uint64_t value, std::uint64_t small, std::uint64_t full) {
    return small == full || small == value;
  };
  return fits(end.entries, u16(record, 10), k_full16) && fits(end.directory_size, u32(record, 12), k_full32) &&
         fits(end.directory_offset, u32(record, 16), k_full32);
}

// The one end record whose comment reaches exactly to the end of the file. Readers that search backwards take the last
// signature, whatever its comment says: so none may stand behind it.
Result<std::size_t> locate_end(std::span<const std::byte> tail) {
  std::optional<std::size_t> found;
  bool signature_behind = false;
  if (tail.size() < k_end_length) return corrupt("it is too short for a zip archive");
  const std::size_t lowest = tail.size() - std::min(tail.size(), k_end_length + k_full16);
  for (std::size_t at = tail.size() - k_end_length + 1; at-- > lowest;) {
    if (u32(tail, at) != k_end_signature) continue;
    const bool reaches_the_end = at + k_end_length + u16(tail, at + 20) == tail.size();
    if (reaches_the_end && signature_behind) return corrupt("it has two ends, so two readers could see two archives");
    if (reaches_the_end && !found) found = at;
    signature_behind = true;
  }
  if (!found) return corrupt("it has no zip end record, or data behind it");
  return *found;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xc2 && lead < 0xe0 ? 2
                               : (lead & 0xf0U) == 0xe0      ? 3
                               : lead >= 0xf0 && lead < 0xf5 ? 4
                                                             : 0;
    if (length == 0 || at + length > text.size()) return false;
    std::uint32_t value = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (std::size_t next = 1; next < length; ++next) {
      const auto byte = static_cast<unsigned char>(text[at + next]);
      if ((byte & 0xc0U) != 0x80) return false;
      value = (value << 6U) | (byte & 0x3fU);
    }
    const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
    if (overlong || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return false;
    at += length;
  }
  return true;
}

Result<void> check_relative_path(std::string_view path) {
  const auto refuse = [&](std::string_view why) {
    return base::fail(ErrorCode::unsafe_path, fmt::format("{} {}", shown(path), why));
  };
  if (path.empty()) return refuse("is an empty name");
  if (path.front() == '/') return refuse("is an absolute path");
  if (path.size() > 3000) return refuse("is too long for a path");
  for (const char letter : path) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f) return refuse("holds a control character");
    if (letter == '\\') return refuse("holds a backslash");
  }
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t stop = std::min(path.find('/', start), path.size());
    const std::string_view component = path.substr(start, stop - start);
    if (component.empty()) return refuse("has an empty component");
    if (component == "." || component == "..") return refuse("would leave its folder");
    if (component.size() > 255) return refuse("has a component that is too long");
    start = stop + 1;
  }
  return {};
}

Result<ZipEnd> find_zip_end(std::span<const std::byte> tail, std::uint64_t file_size) {
  const std::size_t at = TRY(locate_end(tail));
  const std::uint64_t tail_offset = file_size - tail.size();
  const auto record = tail.subspan(at);
  if (u16(record, 4) != 0 || u16(record, 6) != 0 || u16(record, 8) != u16(record, 10))
    return corrupt("it has several disks");
  if (at >= k_locator_length && u32(tail, at - k_locator_length) == k_locator_signature) {
    const ZipEnd end = TRY(read_end64(tail, at, tail_offset));
    if (!agree(record, end)) return corrupt("its two end records contradict each other");
    return end;
  }
  const ZipEnd end{.directory_offset = u32(record, 16), .directory_size = u32(record, 12), .entries = u16(record, 10)};
  if (end.directory_offset + end.directory_size != tail_offset + at)
    return corrupt("there is data before it, or between its directory and its end");
  return end;
}

Result<std::vector<ZipEntry>> read_zip_directory(std::span<const std::byte> directory, const ZipEnd& end,
                                                 const ZipLimits& limits) {
  if (end.entries > limits.entries) return corrupt(fmt::format("it has {} entries", end.entries));
  std::vector<ZipEntry> entries;
  entries.reserve(std::min<std::uint64_t>(end.entries, directory.size() / k_central_length));
  while (!directory.empty()) {
    if (entries.size() == end.entries) return corrupt("its directory holds more than its end record says");
    entries.push_back(TRY(read_entry(directory)));
  }
  if (entries.size() != end.entries) return corrupt("its directory holds less than its end record says");
  TRY(check_names_together(entries));
  TRY(set_ends(entries, end.directory_offset));
  TRY(check_against_bombs(entries, end, limits));
  return entries;
}

Result<std::uint64_t> check_local_header(std::span<const std::byte> bytes, const ZipEntry& entry) {
  if (bytes.size() < k_local_header || u32(bytes, 0) != k_local_signature)
    return corrupt(fmt::format("{} has no local header", shown(entry.name)));
  const std::size_t name_length = u16(bytes, 26);
  const std::size_t extra_length = u16(bytes, 28);
  const std::size_t length = k_local_header + name_length + extra_length;
  if (bytes.size() < length) return corrupt(fmt::format("the local header of {} is cut off", shown(entry.name)));
  const auto contradiction = [&](std::string_view what) {
    return corrupt(fmt::format("local header and directory give {} different {}", shown(entry.name), what));
  };
  if (text(bytes.subspan(k_local_header, name_length)) != entry.name) return contradiction("names");
  if (u16(bytes, 6) != entry.flags) return contradiction("flags");
  if (u16(bytes, 8) != static_cast<std::uint16_t>(entry.method)) return contradiction("methods");
  ZipEntry local{.compressed = u32(bytes, 18), .size = u32(bytes, 22), .crc = u32(bytes, 14)};
  const auto extra = bytes.subspan(k_local_header + name_length, extra_length);
  TRY_CONTEXT(apply_zip64(extra, local), "in the local header of " + shown(entry.name));
  if (TRY(extra_field(extra, k_extra_unicode_path))) return contradiction("names");
  // APPNOTE 4.4.4, bit 3: the three fields may be zero here and follow the data.
  const bool deferred = (entry.flags & k_flag_descriptor) != 0;
  if (local.crc != entry.crc && !(deferred && local.crc == 0)) return contradiction("checksums");
  if (local.size != entry.size && !(deferred && (local.size == 0 || local.size == k_full32)))
    return contradiction("sizes");
  if (local.compressed != entry.compressed && !(deferred && (local.compressed == 0 || local.compressed == k_full32)))
    return contradiction("sizes");
  return length;
}

Result<void> check_after_data(std::span<const std::byte> bytes, const ZipEntry& entry) {
  const bool deferred = (entry.flags & k_flag_descriptor) != 0;
  if (bytes.empty() && !deferred) return {};
  if (!deferred) return corrupt(fmt::format("there is hidden data behind {}", shown(entry.name)));
  std::span<const std::byte> rest = bytes;
  if (rest.size() == 16 || rest.size() == 24) {
    if (u32(rest, 0) != k_descriptor_signature)
      return corrupt(fmt::format("the data descriptor of {} is damaged", shown(entry.name)));
    rest = rest.subspan(4);
  }
  const bool small =
      rest.size() == 12 && u32(rest, 0) == entry.crc && u32(rest, 4) == entry.compressed && u32(rest, 8) == entry.size;
  const bool large =
      rest.size() == 20 && u32(rest, 0) == entry.crc && u64(rest, 4) == entry.compressed && u64(rest, 12) == entry.size;
  if (!small && !large)
    return corrupt(fmt::format("the data descriptor of {} contradicts the directory", shown(entry.name)));
  return {};
}

}  // namespace startrail::image
