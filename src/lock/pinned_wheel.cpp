#include "lock/pinned_wheel.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/http.hpp"
#include "lock/lock.hpp"

namespace startrail::lock {
namespace {

constexpr Bytes k_largest_wheel{128ULL << 20U};
constexpr std::size_t k_largest_entry = 256U << 20U;

struct ArchiveDeleter {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using Archive = std::unique_ptr<archive, ArchiveDeleter>;

Result<std::string> read_entry(archive* handle, const std::string& name) {
  std::string content;
  std::array<char, 1U << 16U> block;
  for (;;) {
    const auto count = archive_read_data(handle, block.data(), block.size());
    if (count == 0) return content;
    if (count < 0 || content.size() + static_cast<std::size_t>(count) > k_largest_entry)
      return fail(ErrorCode::corrupt, fmt::format("cannot unpack {} from its wheel", name));
    content.append(block.data(), static_cast<std::size_t>(count));
  }
}

Result<void> unpack(const PinnedWheel& wheel, const std::string& bytes, const fs::path& folder) {
  const Archive handle(archive_read_new());
  archive_read_support_format_zip(handle.get());
  if (archive_read_open_memory(handle.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    return fail(ErrorCode::corrupt, fmt::format("the wheel of {} is not a zip file", wheel.project));
  std::size_t found = 0;
  for (archive_entry* entry = nullptr; archive_read_next_header(handle.get(), &entry) == ARCHIVE_OK;) {
    const char* path = archive_entry_pathname(entry);
    const auto wanted =
        std::ranges::find(wheel.entries, std::string_view(path != nullptr ? path : ""), &PinnedWheel::Entry::name);
    if (wanted == wheel.entries.end()) continue;
    const std::string content = TRY(read_entry(handle.get(), wanted->name));
    TRY(base::write_file_atomic(folder / wanted->file, content, wanted->mode, base::Durable::yes));
    ++found;
  }
  if (found == wheel.entries.size()) return {};
  return fail(ErrorCode::corrupt,
              fmt::format("the wheel of {} {} lacks {}", wheel.project, wheel.version, wheel.entries.front().name));
}

// The mirror that answers may know several addresses; the hash, not the address, says which file is meant.
Result<Artifact> find_wheel(const PinnedWheel& wheel) {
  const IndexConfiguration configuration = index_configuration();
  std::vector<std::string> indexes{configuration.default_index};
  indexes.insert(indexes.end(), configuration.extra_indexes.begin(), configuration.extra_indexes.end());
  std::optional<Error> first_failure;
  for (const auto& index : indexes) {
    const auto files = index_files(index, wheel.project);
    if (!files) {
      if (!first_failure) first_failure = files.error();
      continue;
    }
    const auto found = std::ranges::find(*files, wheel.sha256, &Artifact::sha256);
    if (found != files->end()) return *found;
  }
  if (first_failure) return fail(std::move(*first_failure));
  return fail(
      error(ErrorCode::not_found, fmt::format("the package index {} has no {} {}",
                                              base::host_of(configuration.default_index), wheel.project, wheel.version))
          .with_hint(fmt::format("use an index that has {} {} (UV_DEFAULT_INDEX), it is needed for locking",
                                 wheel.project, wheel.version)));
}

Result<std::string> fetch(const PinnedWheel& wheel, Reporter& reporter) {
  const Artifact artifact = TRY(find_wheel(wheel));
  reporter.step(fmt::format("fetching {} {}", wheel.project, wheel.version));
  const auto response = TRY(base::http_get(
      {.url = artifact.url, .headers = {}, .timeout = std::chrono::seconds(600), .limit = k_largest_wheel}));
  if (response.status != 200)
    return fail(ErrorCode::network, fmt::format("{} answered {} for {}", base::host_of(artifact.url), response.status,
                                                base::without_credentials(artifact.url)));
  if (base::sha256_hex(response.body) != wheel.sha256)
    return fail(ErrorCode::hash_mismatch,
                fmt::format("{} from {} is not the file it should be", artifact.filename, base::host_of(artifact.url)));
  return response.body;
}

bool is_complete(const PinnedWheel& wheel, const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::all_of(wheel.entries,
                             [&](const auto& entry) { return fs::is_regular_file(folder / entry.file, ignored); });
}

}  // namespace

Result<fs::path> ensure_pinned_wheel(const PinnedWheel& wheel, const fs::path& state_root, Reporter& reporter) {
  const fs::path tools = state_root / "tools";
  const fs::path folder = tools / fmt::format("{}-{}", wheel.project, wheel.version);
  if (is_complete(wheel, folder)) return folder;
  TRY(base::make_directories(tools));
  const auto held = TRY(base::FileLock::acquire(tools / fmt::format(".{}.lock", wheel.project)));
  if (is_complete(wheel, folder)) return folder;
  const std::string bytes = TRY(fetch(wheel, reporter));
  const fs::path staging = TRY(base::make_temporary_directory(tools, "." + wheel.project));
  const auto unpacked = unpack(wheel, bytes, staging);
  if (!unpacked) {
    (void)base::remove_tree(staging);
    return fail(unpacked.error());
  }
  TRY(base::remove_tree(folder));
  ::chmod(staging.c_str(), 0755);
  std::error_code failure;
  fs::rename(staging, folder, failure);
  if (failure) return fail(base::errno_error("cannot put " + folder.string() + " into place", failure.value()));
  return folder;
}

}  // namespace startrail::lock
