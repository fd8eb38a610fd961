#include "run/durable.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "base/files.hpp"
#include "run/record.hpp"
#include "run/snapshot_manifest.hpp"
#include "run/snapshot_objects.hpp"

namespace startrail::run {
namespace {

constexpr std::time_t k_unfinished_for_sure = 2 * 24 * 3600;

void sync(const fs::path& path, int flags) {
  if (const auto fd = base::open_file(path, O_RDONLY | flags)) ::fsync(fd->get());
}

// mkstemp(3)'s names: "….json.a1B2c3" of an atomic write, ".adding.a1B2c3" of an object.
bool is_temporary(const std::string& name) {
  constexpr std::size_t k_suffix = 7;
  if (name.size() <= k_suffix || name[name.size() - k_suffix] != '.') return false;
  const std::string_view stem = std::string_view(name).substr(0, name.size() - k_suffix);
  return stem == ".adding" || stem.ends_with(".json");
}

void remove_old_temporaries(const fs::path& folder) {
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (!is_temporary(entry->path().filename())) continue;
    struct stat status{};
    if (::lstat(entry->path().c_str(), &status) == 0 && ::time(nullptr) - status.st_mtime > k_unfinished_for_sure)
      ::unlink(entry->path().c_str());
  }
}

}  // namespace

void make_record_durable(const fs::path& run_directory) {
  for (const char* file : {k_spec_file, k_record_file, k_state_file, k_container_file, k_log_file, k_log_index_file})
    sync(run_directory / file, 0);
  sync(run_directory, O_DIRECTORY);
  sync(run_directory.parent_path(), O_DIRECTORY);
}

void make_snapshot_durable(const fs::path& snapshots, const std::string& id) {
  if (id.empty()) return;
  const SnapshotObjects objects(snapshots);
  if (const auto manifest = read_manifest(snapshots, id))
    for (const auto& entry : manifest->entries)
      if (entry.kind != Manifest::Kind::link) objects.make_durable(entry.sha256);
  sync(snapshots / "manifests" / (id + ".json"), 0);
  sync(snapshots / "manifests", O_DIRECTORY);
  for (const char* folder : {"objects", "manifests"}) remove_old_temporaries(snapshots / folder);
}

}  // namespace startrail::run
