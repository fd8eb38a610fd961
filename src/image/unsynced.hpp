// What a power cut could take back. A rename survives a kill at once, but a power cut only when the disk has the files
// too, and waiting for the disk would double the time of a build. So each tree is noted before it appears, under the
// boot it was made in; a sync in the background, when the build is done, strikes the notes out. A note of an earlier
// boot means that the machine went down in between: then the store is checked before it is believed.
//
//   unsynced/<machine>.<boot>/<kind>@<name>
#pragma once

#include <filesystem>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "image/store.hpp"

namespace startrail::image {

// Before `place` (wheels/…, images/…, bytecode/…) appears. Errors: no_space.
[[nodiscard]] Result<void> note_unsynced(const Store& store, const std::filesystem::path& place);

// Waits until the disk has everything that was noted before this call, and strikes those notes out.
[[nodiscard]] Result<void> sync_store(const Store& store);

// Something was noted since the last sync.
[[nodiscard]] bool is_unsynced(const Store& store);

// Something was noted in an earlier boot of this machine. One readdir.
[[nodiscard]] bool is_in_doubt(const Store& store);

// Checks the store after such a boot, and takes away what the power cut damaged, so that it is made anew. The caller
// doesn't hold the store.
[[nodiscard]] Result<void> settle_doubts(const Store& store, Reporter& reporter);

}  // namespace startrail::image
