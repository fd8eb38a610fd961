#include "project/folder.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/process.hpp"
#include "base/units.hpp"

namespace startrail::project {
namespace {

constexpr const char* k_another = "the project's other files are then read";

// Far above any real declaration, far below what would be felt.
constexpr Bytes k_file_limit{16U << 20U};

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

Result<std::vector<std::string>> list(const fs::path& directory) {
  const std::unique_ptr<DIR, CloseDirectory> stream(::opendir(directory.c_str()));
  if (!stream) return fail(base::errno_error(fmt::format("cannot list {}", directory.string()), errno));
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void append_utf8(std::string& text, char32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0U | (code >> 6U));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0U | (code >> 12U));
    text += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  } else {
    text += static_cast<char>(0xF0U | (code >> 18U));
    text += static_cast<char>(0x80U | ((code >> 12U) & 0x3FU));
    text += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    text += static_cast<char>(0x80U | (code & 0x3FU));
  }
}

std::string from_utf16(std::string_view bytes, int low_byte) {
  std::string text;
  const auto unit = [&](std::size_t at) {
    const auto low = static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(low_byte)]);
    const auto high = static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(1 - low_byte)]);
    return static_cast<char32_t>((static_cast<unsigned>(high) << 8U) | low);
  };
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2) {
    char32_t code = unit(at);
    if (code >= 0xD800 && code < 0xDC00 && at + 3 < bytes.size()) {
      const char32_t low = unit(at + 2);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
        at += 2;
      }
    }
    append_utf8(text, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
  }
  return text;
}

// Length of the well-formed UTF-8 sequence at `at` (Unicode, table 3-7, overlong forms left to their users); 0 if none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[at + i]) & 0xC0U) != 0x80U) return 0;
  return length;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string from_latin1(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(text, static_cast<unsigned char>(c));
  return text;
}

std::string with_plain_line_ends(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      result += text[i];
    } else if (i + 1 >= text.size() || text[i + 1] != '\n') {
      result += '\n';
    }
  }
  return result;
}

// Errors of the parsers name file and line; what can be done about them is known here.
Result<base::Document> with_way_out(Result<base::Document> document) {
  if (document) return document;
  return fail(std::move(document).error().with_hint(
      fmt::format("correct it there, or move the file out of the folder: {}", k_another)));
}

}  // namespace

Result<std::string> decode_text(std::string_view bytes) {
  std::string text;
  if (bytes.starts_with("\xFF\xFE")) {
    text = from_utf16(bytes.substr(2), 0);
  } else if (bytes.starts_with("\xFE\xFF")) {
    text = from_utf16(bytes.substr(2), 1);
  } else {
    if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
    text = is_utf8(bytes) ? std::string(bytes) : from_latin1(bytes);
  }
  if (text.find('\0') != std::string::npos) return fail(ErrorCode::invalid_input, "it is not a text file");
  return with_plain_line_ends(text);
}

Result<Folder> Folder::open(const fs::path& root) {
  std::error_code failure;
  const auto status = fs::status(root, failure);
  if (status.type() == fs::file_type::not_found)
    return fail(error(ErrorCode::not_found, fmt::format("there is no folder {}", root.string()))
                    .with_hint("name the folder that holds the training code"));
  if (failure) return fail(base::errno_error(fmt::format("cannot open {}", root.string()), failure.value()));
  if (status.type() != fs::file_type::directory)
    return fail(error(ErrorCode::invalid_input, fmt::format("{} is not a folder", root.string()))
                    .with_hint("name the folder that holds the training code"));
  Folder folder;
  folder.m_root = root;
  folder.m_names = TRY(list(root));
  return folder;
}

std::vector<std::string> Folder::names_in(const std::string& directory) const {
  return list(m_root / directory).value_or(std::vector<std::string>{});
}

bool Folder::has_file(const std::string& file) const {
  struct stat status{};
  if (::stat((m_root / file).c_str(), &status) == 0) return !S_ISDIR(status.st_mode);
  return errno == EACCES || errno == ELOOP;
}

bool Folder::has_directory(const std::string& directory) const {
  std::error_code ignored;
  return fs::is_directory(m_root / directory, ignored);
}

std::string Folder::shown(const std::string& file) const {
  const fs::path path = (m_root / file).lexically_normal();
  const fs::path relative = path.lexically_relative(m_root.lexically_normal());
  return relative.empty() ? path.generic_string() : relative.generic_string();
}

Result<TextFile> Folder::read_text(const std::string& file) const {
  const fs::path path = m_root / file;
  const std::string name = shown(file);
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ELOOP)
      return fail(error(ErrorCode::invalid_input, fmt::format("{} is a link that leads back to itself", name))
                      .with_hint(fmt::format("remove it: rm {}", base::shell_quote(path.string()))));
    return fail(base::errno_error(fmt::format("cannot open {}", name), errno));
  }
  if (!S_ISREG(status.st_mode))
    return fail(error(ErrorCode::invalid_input, fmt::format("{} is not a regular file", name))
                    .with_hint("put a text file in its place, or name another"));
  if (static_cast<std::uint64_t>(status.st_size) > k_file_limit.count)
    return fail(error(ErrorCode::invalid_input,
                      fmt::format("{} has {}, too much for a file that declares packages (limit {})", name,
                                  base::to_text(Bytes{static_cast<std::uint64_t>(status.st_size)}),
                                  base::to_text(k_file_limit)))
                    .with_hint(fmt::format("move it out of the folder if it is something else: {}", k_another)));
  auto bytes = base::read_file(path, k_file_limit);
  if (!bytes) {
    Error reason = std::move(bytes).error();
    if (reason.code == ErrorCode::permission) {
      reason.message = fmt::format("cannot read {}: permission denied", name);
      reason.with_hint(fmt::format("chmod u+r {}", base::shell_quote(path.string())));
    }
    return fail(std::move(reason));
  }
  auto text = decode_text(*bytes);
  if (!text)
    return fail(error(ErrorCode::invalid_input, fmt::format("{}: {}", name, text.error().message))
                    .with_hint(fmt::format("save it as plain text, or move it out of the folder: {}", k_another)));
  return TextFile{.file = name, .text = std::move(*text), .sha256 = base::sha256_hex(*bytes)};
}

// TRY stays out of the braces: GCC 12 leaks members already made when one returns from inside an aggregate's
// initializer.
Result<TableFile> Folder::read_toml(const std::string& file) const {
  TextFile text = TRY(read_text(file));
  auto document = TRY(with_way_out(base::parse_toml(text.text, text.file)));
  return TableFile{.file = std::move(text.file), .sha256 = std::move(text.sha256), .document = std::move(document)};
}

Result<TableFile> Folder::read_yaml(const std::string& file) const {
  TextFile text = TRY(read_text(file));
  auto document = TRY(with_way_out(base::parse_yaml(text.text, text.file)));
  return TableFile{.file = std::move(text.file), .sha256 = std::move(text.sha256), .document = std::move(document)};
}

}  // namespace startrail::project
