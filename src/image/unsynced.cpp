#include "image/unsynced.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/process.hpp"
#include "image/image.hpp"
#include "image/verify_store.hpp"

namespace startrail::image {
namespace {

fs::path notes_of(const Store& store) {
  return store.folder("unsynced");
}

// A store may be shared by machines over a network.
std::string machine_prefix() {
  return base::process_place().host + ".";
}

std::string this_boot() {
  return machine_prefix() + base::boot_id();
}

std::vector<fs::path> earlier_boots(const Store& store) {
  std::vector<fs::path> folders = entries_of(notes_of(store));
  if (folders.empty()) return folders;  // as before most builds: who this machine is needn't be found out
  const std::string prefix = machine_prefix(), present = this_boot();
  std::erase_if(folders, [&](const fs::path& folder) {
    const std::string name = folder.filename().string();
    return !name.starts_with(prefix) || name == present;
  });
  return folders;
}

}  // namespace

Result<void> note_unsynced(const Store& store, const fs::path& place) {
  const fs::path folder = notes_of(store) / this_boot();
  TRY(base::make_directories(folder));
  const std::string kind = place.parent_path().filename().string();
  (void)TRY(base::open_file(folder / fmt::format("{}@{}", kind, place.filename().string()), O_WRONLY | O_CREAT));
  return {};
}

Result<void> sync_store(const Store& store) {
  const std::vector<fs::path> noted = entries_of(notes_of(store) / this_boot());
  std::error_code none;
  if (noted.empty()) return {};
  const base::Fd fd = TRY(base::open_file(store.root(), O_RDONLY | O_DIRECTORY));
  if (::syncfs(fd.get()) != 0)
    return base::fail(base::errno_error(fmt::format("cannot write {} to its disk", store.root().string()), errno));
  for (const fs::path& note : noted) fs::remove(note, none);
  fs::remove(notes_of(store) / this_boot(), none);  // stays while there are newer notes
  return {};
}

bool is_unsynced(const Store& store) {
  return !entries_of(notes_of(store)).empty() && !entries_of(notes_of(store) / this_boot()).empty();
}

bool is_in_doubt(const Store& store) {
  return !earlier_boots(store).empty();
}

Result<void> settle_doubts(const Store& store, Reporter& reporter) {
  if (!is_in_doubt(store)) return {};
  reporter.note("the machine went down before the disk had all of the store: it is checked now, once");
  const RepairResult repaired = TRY(repair_store(store.root(), {}, reporter));
  for (const StoreFault& fault : repaired.repaired) reporter.note(fault.what + ": it is made anew when it is needed");
  if (!repaired.left.empty()) return {};  // something uses it: the notes stay
  for (const fs::path& folder : earlier_boots(store)) TRY(base::remove_tree(folder));
  return {};
}

}  // namespace startrail::image
