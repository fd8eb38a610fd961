// The levels one by one. Each returns what it found; an Error means that it could not be tried at all.
#pragma once

#include "image/image.hpp"
#include "image/store.hpp"
#include "image/verify/verify.hpp"

namespace startrail::image {

// Files of wheels against RECORD, of layers against what came, of the base against its digest; links against both.
[[nodiscard]] LevelResult check_files(const Store& store, const Image& image, Reporter& reporter);

// A file that is there for nobody's import (a plug-in) and lacks a library is a warning, an extension module a failure.
[[nodiscard]] LevelResult check_linkage(const Image& image, Reporter& reporter);

// The four levels that run Python in the image, and `imports`; the scripts are in python/verify.
[[nodiscard]] Result<LevelResult> run_level(Level level, const Store& store, const Image& image,
                                            const VerifyOptions& options, const machine::Machine& machine,
                                            Reporter& reporter);

}  // namespace startrail::image
