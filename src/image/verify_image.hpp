// One image against its manifest and the wheels that it names.
#pragma once

#include <string>

#include "image/store.hpp"
#include "image/verify_store.hpp"

namespace startrail::image {

// Its tree holds what its wheels bring, the environment's own files, and nothing else; so does its layer of bytecode.
void check_image(const Store& store, const std::string& id, Faults& faults);

}  // namespace startrail::image
