// Wheels with metadata only, that stand in for sources whose real metadata only a build could tell.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"

namespace startrail::lock {

// Writes NAME-VERSION-py3-none-any.whl without dependencies and without content into `folder`.
[[nodiscard]] Result<void> write_stub_wheel(const std::filesystem::path& folder, const std::string& name,
                                            const std::string& version);

}  // namespace startrail::lock
