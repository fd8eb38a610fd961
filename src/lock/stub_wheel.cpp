#include "lock/stub_wheel.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/files.hpp"
#include "base/hash.hpp"

namespace startrail::lock {
namespace {

struct WriterDeleter {
  void operator()(archive* handle) const { archive_write_free(handle); }
};
struct EntryDeleter {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

Error failed(archive* handle, const fs::path& file) {
  return base::error(ErrorCode::internal,
                     fmt::format("cannot write {}: {}", file.string(), archive_error_string(handle)));
}

Result<void> add(archive* handle, const fs::path& file, const std::string& name, const std::string& content) {
  const std::unique_ptr<archive_entry, EntryDeleter> entry(archive_entry_new());
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  if (archive_write_header(handle, entry.get()) != ARCHIVE_OK) return fail(failed(handle, file));
  if (archive_write_data(handle, content.data(), content.size()) < 0) return fail(failed(handle, file));
  return {};
}

// PyPA "Recording installed projects": the record itself has neither hash nor size.
std::string record_of(const std::map<std::string, std::string>& files, const std::string& own_path) {
  std::string record;
  base::Sha256 hash;
  for (const auto& [path, content] : files) {
    hash.update(content);
    record += fmt::format("{},sha256={},{}\n", path, base::to_base64url(hash.finish()), content.size());
  }
  return record + own_path + ",,\n";
}

}  // namespace

Result<fs::path> write_stub_wheel(const fs::path& folder, const std::string& name, const std::string& version,
                                  std::map<std::string, std::string> files) {
  std::string distribution = name;
  std::ranges::replace(distribution, '-', '_');
  const std::string title = fmt::format("{}-{}", distribution, version);
  const std::string metadata = title + ".dist-info/";
  files[metadata + "METADATA"] = fmt::format("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", name, version);
  files[metadata + "WHEEL"] = "Wheel-Version: 1.0\nGenerator: startrail\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
  files[metadata + "RECORD"] = record_of(files, metadata + "RECORD");

  fs::path file = folder / (title + "-py3-none-any.whl");
  const std::unique_ptr<archive, WriterDeleter> handle(archive_write_new());
  archive_write_set_format_zip(handle.get());
  if (archive_write_open_filename(handle.get(), file.c_str()) != ARCHIVE_OK) return fail(failed(handle.get(), file));
  for (const auto& [path, content] : files) TRY(add(handle.get(), file, path, content));
  if (archive_write_close(handle.get()) != ARCHIVE_OK) return fail(failed(handle.get(), file));
  return file;
}

}  // namespace startrail::lock
