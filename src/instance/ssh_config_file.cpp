#include "instance/ssh_config_file.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/files.hpp"
#include "base/process.hpp"

namespace startrail::instance {
namespace {

constexpr Bytes k_longest_file{1U << 20U};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view k_white = " \t\r\f";
  const std::size_t first = line.find_first_not_of(k_white);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(k_white) - first + 1);
}

// ssh_config(5): a keyword ends at white space or an equals sign, and its case doesn't matter.
std::string keyword_of(std::string_view line) {
  return lower(line.substr(0, line.find_first_of(" \t=\"")));
}

bool begins_block(std::string_view line) {
  const std::string keyword = keyword_of(line);
  return keyword == "host" || keyword == "match";
}

bool is_among(std::string_view patterns, std::string_view name) {
  constexpr std::string_view k_between = " \t=\"";
  for (std::size_t at = patterns.find_first_not_of(k_between); at != std::string_view::npos;
       at = patterns.find_first_not_of(k_between, at)) {
    const std::size_t end = std::min(patterns.find_first_of(k_between, at), patterns.size());
    if (lower(patterns.substr(at, end - at)) == lower(name)) return true;
    at = end;
  }
  return false;
}

bool is_included(std::string_view text, std::string_view line) {
  while (!text.empty()) {
    const std::string_view here = trimmed(text.substr(0, text.find('\n')));
    if (here == line) return true;
    if (begins_block(here)) return false;
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return false;
}

Result<void> make_ssh_folder(const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return {};
  return base::make_directories(folder, 0700);
}

// Where the link leads, also when nothing is there yet.
fs::path followed(fs::path file) {
  constexpr int k_most_links = 40;  // as the kernel follows, path_resolution(7)
  std::error_code failed;
  for (int links = 0; links < k_most_links && fs::is_symlink(file, failed); ++links) {
    const fs::path target = fs::read_symlink(file, failed);
    if (failed) break;
    file = file.parent_path() / target;  // an absolute one replaces all of it
  }
  return file;
}

}  // namespace

std::string with_include(std::string_view text, const fs::path& included) {
  const std::string line = fmt::format("Include \"{}\"", included.string());
  if (is_included(text, line)) return std::string(text);
  return line + "\n" + std::string(text);
}

bool names_host(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = trimmed(text.substr(0, text.find('\n')));
    const std::string keyword = keyword_of(line);
    if (keyword == "host" && is_among(line.substr(keyword.size()), name)) return true;
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return false;
}

fs::path user_configuration_file() {
  if (const auto given = base::environment_variable("STARTRAIL_SSH_CONFIG")) return *given;
  const passwd* account = ::getpwuid(::getuid());
  const fs::path home = account != nullptr ? account->pw_dir : base::environment_variable("HOME").value_or("/");
  return home / ".ssh/config";
}

Result<Included> include_in(const fs::path& file, const fs::path& included) {
  const fs::path real = followed(file);
  struct stat status{};
  const bool is_there = ::stat(real.c_str(), &status) == 0;
  // Replacing it would make it the caller's.
  if (is_there && status.st_uid != ::geteuid())
    return fail(base::error(ErrorCode::permission, fmt::format("{} belongs to somebody else", real.string()))
                    .with_hint(fmt::format("put this line at its top: Include {}", included.string())));
  const std::string before = is_there ? TRY(base::read_file(real, k_longest_file)) : std::string();
  const std::string after = with_include(before, included);
  if (after == before) return Included::already;
  if (!is_there) TRY(make_ssh_folder(real.parent_path()));
  TRY(base::write_file_atomic(real, after, is_there ? status.st_mode & 07777U : 0600, base::Durable::yes));
  return Included::now;
}

}  // namespace startrail::instance
