#include "lock/stub_wheel.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/files.hpp"

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

}  // namespace

Result<void> write_stub_wheel(const fs::path& folder, const std::string& name, const std::string& version) {
  std::string distribution = name;
  std::ranges::replace(distribution, '-', '_');
  const std::string title = fmt::format("{}-{}", distribution, version);
  const fs::path file = folder / (title + "-py3-none-any.whl");
  const std::unique_ptr<archive, WriterDeleter> handle(archive_write_new());
  archive_write_set_format_zip(handle.get());
  if (archive_write_open_filename(handle.get(), file.c_str()) != ARCHIVE_OK) return fail(failed(handle.get(), file));
  const std::string inside = title + ".dist-info/";
  TRY(add(handle.get(), file, inside + "METADATA",
          fmt::format("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", name, version)));
  TRY(add(handle.get(), file, inside + "WHEEL",
          "Wheel-Version: 1.0\nGenerator: startrail\nRoot-Is-Purelib: true\nTag: py3-none-any\n"));
  TRY(add(handle.get(), file, inside + "RECORD", ""));
  if (archive_write_close(handle.get()) != ARCHIVE_OK) return fail(failed(handle.get(), file));
  return {};
}

}  // namespace startrail::lock
