// Programs that write a tree which nobody reads before it is whole, and which is put on the disk as a whole then.
#pragma once

#include "base/error.hpp"
#include "base/process.hpp"

namespace startrail::image {

// As base::run_process; fsync(2) and its kin do nothing in the program and in all that it starts. dpkg asks for
// thousands, and each waits for whatever else is being written to the same disk. Best effort: where the kernel refuses
// (root's rights are needed), the program runs as ever.
[[nodiscard]] Result<base::ProcessResult> run_without_sync(const base::Command& command);

}  // namespace startrail::image
