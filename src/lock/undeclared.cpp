#include "lock/undeclared.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace startrail::lock {
namespace {

struct Release {
  const char* version;
  const char* declared;  // uv takes a table in place of the wheel's own metadata, so what that says is repeated
};

constexpr const char* k_filelock = R"("filelock", )";

// Read in the wheels: triton/compiler.py (2.0), triton/common/build.py (2.1 to 2.3) and triton/runtime/build.py (3.0 to
// 3.2) import setuptools when triton is imported, so that torch.compile fails without it. Python's own environments up
// to 3.11 happened to bring it. 3.3 declares it, and torch itself does for Python 3.12 and newer.
constexpr std::array k_tritons{
    Release{"2.0.0", R"("cmake", "filelock", "torch", "lit", )"},
    Release{"2.1.0", k_filelock},
    Release{"2.2.0", k_filelock},
    Release{"2.3.0", k_filelock},
    Release{"2.3.1", k_filelock},
    Release{"3.0.0", k_filelock},
    Release{"3.1.0", k_filelock},
    Release{"3.2.0", ""},
};

}  // namespace

std::string undeclared_settings() {
  std::string text;
  for (const auto& release : k_tritons)
    text += fmt::format(
        "\n[[dependency-metadata]]\nname = \"triton\"\nversion = \"{}\"\nrequires-dist = [{}\"setuptools\"]\n",
        release.version, release.declared);
  return text;
}

}  // namespace startrail::lock
