// Local folders whose build imports torch, told from their files: nothing of them is run.
#pragma once

#include <filesystem>
#include <string>

namespace startrail::lock {

// `folder`/setup.py has a line that imports torch, or a part of it such as torch.utils.cpp_extension.
[[nodiscard]] bool imports_torch(const std::filesystem::path& folder);

// The name that pyproject.toml's [project], else setup.cfg or a literal in setup.py, gives to the package; "" for none.
[[nodiscard]] std::string package_name(const std::filesystem::path& folder);

}  // namespace startrail::lock
