// A base as files: unpacking, taking out what differs for no reason, and its digest.
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/base_system.hpp"
#include "image/tree_listing.hpp"

namespace startrail::image {
namespace {

using base::errno_error;

struct FreeReader {
  void operator()(archive* reader) const { ::archive_read_free(reader); }
};
struct FreeWriter {
  void operator()(archive* writer) const { ::archive_write_free(writer); }
};

Error archive_error(archive* of, std::string_view what) {
  const int reason = ::archive_errno(of);
  Error error = reason == ENOSPC || reason == EDQUOT ? errno_error(what, reason)
                                                     : base::error(ErrorCode::corrupt, std::string(what));
  const char* text = ::archive_error_string(of);
  return error.with_context(text != nullptr ? text : "no reason given");
}

// The archive's names are relative ("./usr/bin"); a link's target that is a name in the archive moves along.
Result<void> move_below(archive_entry* entry, const fs::path& root) {
  const fs::path name = fs::path(::archive_entry_pathname(entry)).relative_path().lexically_normal();
  if (!name.empty() && *name.begin() == "..")
    return fail(ErrorCode::unsafe_path,
                fmt::format("the base's archive has an entry outside its root: {}", name.string()));
  ::archive_entry_copy_pathname(entry, (root / name).c_str());
  if (const char* link = ::archive_entry_hardlink(entry))
    ::archive_entry_copy_hardlink(entry, (root / fs::path(link).relative_path()).c_str());
  return {};
}

bool is_device(archive_entry* entry) {
  const auto type = ::archive_entry_filetype(entry);
  return type == AE_IFCHR || type == AE_IFBLK || type == AE_IFIFO || type == AE_IFSOCK;
}

constexpr std::array k_removed{
    "etc/.pwd.lock",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/group-",
    "etc/gshadow",
    "etc/gshadow-",
    "etc/hostname",
    "etc/passwd-",
    "etc/resolv.conf",
    "etc/shadow",
    "etc/shadow-",
    "etc/subgid-",
    "etc/subuid-",
    "var/cache/apt",
    "var/cache/debconf",
    "var/cache/ldconfig/aux-cache",
    "var/lib/apt/lists",
    "var/lib/apt/extended_states",
    "var/lib/dbus/machine-id",
    "var/lib/dpkg/available-old",
    "var/lib/dpkg/diversions-old",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/statoverride-old",
    "var/lib/dpkg/status-old",
    "var/lib/systemd/random-seed",
};
// These keep their place and lose what is in them.
constexpr std::array k_emptied{"dev", "proc", "run", "sys", "tmp", "var/log", "var/tmp"};
// Where containers mount; DESIGN's four places, the environment, and init.
constexpr std::array k_mount_points{"workspace", "mnt/datasets", "mnt/personal", "mnt/temp",
                                    "opt/env",   ".trail",       "home"};

Result<void> empty_folder(const fs::path& folder) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) TRY(base::remove_tree(entry.path()));
  return {};
}

Result<void> make_modes_safe(const fs::path& root) {
  std::error_code failed;
  for (auto entry = fs::recursive_directory_iterator(root, failed); entry != fs::recursive_directory_iterator();
       entry.increment(failed)) {
    struct stat status{};
    if (::lstat(entry->path().c_str(), &status) != 0 || S_ISLNK(status.st_mode)) continue;
    const mode_t mode = safe_mode(status.st_mode & 07777U, S_ISDIR(status.st_mode) ? FileType::folder : FileType::file);
    if (mode != (status.st_mode & 07777U) && ::chmod(entry->path().c_str(), mode) != 0)
      return fail(errno_error(fmt::format("cannot set the mode of {}", entry->path().string()), errno));
  }
  if (failed) return fail(ErrorCode::internal, fmt::format("cannot walk {}: {}", root.string(), failed.message()));
  return {};
}

struct Item {
  std::string path;  // relative
  mode_t mode = 0;
  std::uint64_t size = 0;
  std::string content;  // SHA-256 of a file, target of a link
};

Result<std::vector<Item>> items_of(const fs::path& root) {
  std::vector<Item> items;
  std::error_code failed;
  for (auto entry = fs::recursive_directory_iterator(root, failed); entry != fs::recursive_directory_iterator();
       entry.increment(failed)) {
    struct stat status{};
    if (::lstat(entry->path().c_str(), &status) != 0)
      return fail(errno_error(fmt::format("cannot read {}", entry->path().string()), errno));
    Item item{.path = entry->path().lexically_relative(root).string(), .mode = status.st_mode, .content = {}};
    if (S_ISREG(status.st_mode)) item.size = static_cast<std::uint64_t>(status.st_size);
    if (S_ISLNK(status.st_mode)) item.content = fs::read_symlink(entry->path(), failed).string();
    items.push_back(std::move(item));
  }
  if (failed) return fail(ErrorCode::internal, fmt::format("cannot walk {}: {}", root.string(), failed.message()));
  std::ranges::sort(items, {}, &Item::path);
  return items;
}

// Every core takes the next file until none is left.
Result<void> hash_contents(const fs::path& root, std::vector<Item>& items) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto work = [&] {
    for (std::size_t i = next++; i < items.size() && !failed; i = next++) {
      if (!S_ISREG(items[i].mode)) continue;
      auto hash = base::sha256_file_hex(root / items[i].path);
      if (hash) {
        items[i].content = std::move(*hash);
      } else {
        failed = true;
      }
    }
  };
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
  workers.clear();
  if (failed) return fail(ErrorCode::internal, fmt::format("a file of {} can't be read", root.string()));
  return {};
}

}  // namespace

mode_t safe_mode(mode_t mode, FileType type) {
  if (type == FileType::folder && (mode & S_ISVTX) != 0 && (mode & 0777U) == 0777U) return mode;
  return mode & ~static_cast<mode_t>(S_ISUID | S_ISGID | S_ISVTX | S_IWGRP | S_IWOTH);
}

Result<void> unpack_base(const fs::path& tar, const fs::path& root) {
  constexpr std::size_t k_block = 1U << 20U;
  TRY(base::make_directories(root));
  std::error_code failed;
  const fs::path real_root = fs::canonical(root, failed);
  const std::unique_ptr<archive, FreeReader> reader(::archive_read_new());
  ::archive_read_support_format_tar(reader.get());
  const std::unique_ptr<archive, FreeWriter> writer(::archive_write_disk_new());
  ::archive_write_disk_set_options(writer.get(), ARCHIVE_EXTRACT_PERM | ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_UNLINK |
                                                     ARCHIVE_EXTRACT_SECURE_NODOTDOT | ARCHIVE_EXTRACT_SECURE_SYMLINKS);
  if (::archive_read_open_filename(reader.get(), tar.c_str(), k_block) != ARCHIVE_OK)
    return fail(archive_error(reader.get(), "cannot read the base's archive"));
  for (;;) {
    archive_entry* entry = nullptr;
    const int status = ::archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status < ARCHIVE_WARN) return fail(archive_error(reader.get(), "the base's archive is damaged"));
    if (is_device(entry)) continue;
    TRY(move_below(entry, real_root));
    if (::archive_read_extract2(reader.get(), entry, writer.get()) < ARCHIVE_WARN)
      return fail(archive_error(writer.get(), fmt::format("cannot unpack {}", ::archive_entry_pathname(entry))));
  }
  // Folders get their modes and times last, when everything is in them.
  if (::archive_write_close(writer.get()) < ARCHIVE_WARN)
    return fail(archive_error(writer.get(), "cannot finish unpacking the base"));
  return {};
}

Result<void> normalise_base(const fs::path& root) {
  for (const char* name : k_removed) TRY(base::remove_tree(root / name));
  for (const char* name : k_emptied) TRY(empty_folder(root / name));
  for (const char* name : k_mount_points) TRY(base::make_directories(root / name));
  // Empty, not missing: systemd's tools would otherwise make one up (machine-id(5)).
  TRY(base::write_file_atomic(root / "etc/machine-id", ""));
  return make_modes_safe(root);
}

Result<TreeDigest> digest_tree(const fs::path& root) {
  auto items = TRY(items_of(root));
  TRY(hash_contents(root, items));
  base::Sha256 hash;
  TreeDigest result;
  for (const auto& item : items) {
    const auto type = S_ISDIR(item.mode)   ? ListedEntry::Type::folder
                      : S_ISLNK(item.mode) ? ListedEntry::Type::symlink
                                           : ListedEntry::Type::file;
    hash.update(
        TRY(listing_line({.type = type, .mode = item.mode & 07777U, .path = item.path, .content = item.content})));
    result.size += Bytes{item.size};
  }
  result.sha256 = base::to_hex(hash.finish());
  return result;
}

Json installed_packages(const fs::path& root) {
  Json packages = Json::object();
  const std::string status = base::read_file(root / "var/lib/dpkg/status").value_or("");
  std::string name;
  for (std::size_t start = 0; start < status.size();) {
    const std::size_t end = std::min(status.find('\n', start), status.size());
    const std::string_view line = std::string_view(status).substr(start, end - start);
    start = end + 1;
    if (line.starts_with("Package: ")) name = line.substr(9);
    if (line.starts_with("Version: ")) packages[name] = std::string(line.substr(9));
  }
  return packages;
}

}  // namespace startrail::image
