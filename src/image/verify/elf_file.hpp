// What the dynamic linker reads of a file: its name, what it needs, where it looks, and the versions of both sides.
// Format: System V ABI (gABI) chapter 5 and the GNU symbol versioning of the LSB; 64-bit, little endian, x86-64.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace startrail::image {

struct NeededVersion {
  std::string library, version;  // "libc.so.6", "GLIBC_2.34"
};

struct ElfFile {
  std::string soname;
  std::vector<std::string> needed;  // in the file's order
  std::string rpath, runpath;
  std::vector<NeededVersion> needed_versions;  // weak ones left out
  std::set<std::string> versions;              // that it defines
};

// nullopt: no ELF file of this machine's kind, or one without a dynamic section. A damaged one gives what can be read.
[[nodiscard]] std::optional<ElfFile> parse_elf(std::string_view bytes);
// Maps the file. Errors: those of opening it.
[[nodiscard]] Result<std::optional<ElfFile>> read_elf(const std::filesystem::path& file);

}  // namespace startrail::image
