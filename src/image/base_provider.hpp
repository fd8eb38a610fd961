// What locking and building from source borrow of this module, which is above theirs.
#pragma once

#include <filesystem>

#include "lock/lock.hpp"
#include "machine/machine.hpp"

namespace startrail::image {

// `machine` must outlive what is returned.
[[nodiscard]] lock::BaseProvider base_provider(const std::filesystem::path& store, const machine::Machine& machine);

}  // namespace startrail::image
