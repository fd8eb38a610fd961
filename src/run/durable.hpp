// What must outlive a power cut, and is written without waiting for the disk so that a run starts at once.
#pragma once

#include <filesystem>
#include <string>

namespace startrail::run {

// Waits until the disk has the run's files as they are now. What can't be synced stays as it is.
void make_record_durable(const std::filesystem::path& run_directory);
// The same for a snapshot's manifest and for those of its objects that are new. Also removes what snapshots that were
// interrupted days ago left unfinished. Does nothing without an id.
void make_snapshot_durable(const std::filesystem::path& snapshots, const std::string& id);

}  // namespace startrail::run
