#include "machine/gpu/driver_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "base/files.hpp"
#include "machine/text_fields.hpp"

namespace startrail::machine {
namespace {

enum class Need { required, optional };

struct Library {
  std::string_view stem;
  std::string_view soname;  // "" when programs open it by its full name
  Need need = Need::optional;
};

// The compute half of the driver; graphics, display and video libraries stay on the host.
constexpr std::array k_libraries{
    Library{"libcuda.so", "libcuda.so.1", Need::required},
    Library{"libnvidia-ml.so", "libnvidia-ml.so.1", Need::required},
    Library{"libnvidia-ptxjitcompiler.so", "libnvidia-ptxjitcompiler.so.1", Need::required},
    Library{"libnvidia-nvvm.so", "libnvidia-nvvm.so.4"},
    Library{"libnvidia-nvvm70.so", "libnvidia-nvvm70.so.4"},
    Library{"libnvidia-gpucomp.so", ""},
    Library{"libnvidia-compiler.so", ""},
    Library{"libnvidia-fatbinaryloader.so", ""},
    Library{"libnvidia-opencl.so", "libnvidia-opencl.so.1"},
    Library{"libnvidia-cfg.so", "libnvidia-cfg.so.1"},
    Library{"libnvidia-allocator.so", "libnvidia-allocator.so.1"},
    Library{"libnvidia-pkcs11.so", ""},
    Library{"libnvidia-pkcs11-openssl3.so", ""},
    Library{"libcudadebugger.so", "libcudadebugger.so.1"},
};

constexpr std::array<std::string_view, 9> k_known_directories{"/usr/lib/x86_64-linux-gnu",
                                                              "/usr/lib/x86_64-linux-gnu/nvidia/current",
                                                              "/usr/lib64",
                                                              "/usr/lib64/nvidia",
                                                              "/usr/lib/nvidia",
                                                              "/usr/lib",
                                                              "/lib64",
                                                              "/usr/local/nvidia/lib64",
                                                              "/usr/lib/wsl/lib"};

// ---- ld.so.cache, as glibc's elf/cache.c lays it out (little endian on x86_64) ----
constexpr std::string_view k_cache_magic = "glibc-ld.so.cache1.1";
constexpr std::string_view k_old_cache_magic = "ld.so-1.7.0";
constexpr std::size_t k_old_header = 16;  // magic, padding, number of entries
constexpr std::size_t k_old_entry = 12;
constexpr std::size_t k_header = 48;
constexpr std::size_t k_entry = 24;  // flags, key, value, osversion, hwcap

std::optional<std::uint32_t> word_at(std::string_view data, std::size_t offset) {
  std::uint32_t value = 0;
  if (offset > data.size() || data.size() - offset < sizeof value) return std::nullopt;
  std::memcpy(&value, data.data() + offset, sizeof value);
  return value;
}

std::string_view text_at(std::string_view data, std::size_t offset) {
  if (offset >= data.size()) return {};
  const std::string_view rest = data.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

// Offsets of strings count from the new format's own header.
std::string_view without_old_cache(std::string_view data) {
  if (!data.starts_with(k_old_cache_magic)) return data;
  const std::size_t entries = word_at(data, 12).value_or(0);
  if (entries > data.size() / k_old_entry) return {};
  const std::size_t end = k_old_header + entries * k_old_entry;
  const std::size_t aligned = (end + 7) / 8 * 8;
  return aligned <= data.size() ? data.substr(aligned) : std::string_view{};
}

std::vector<fs::path> library_directories(const HostPaths& paths) {
  std::vector<std::string> candidates;
  const std::string cache = text_of(at(paths, "/etc/ld.so.cache"));
  candidates = cached_library_directories(cache, {"libcuda.so", "libnvidia-"});
  candidates.insert(candidates.end(), k_known_directories.begin(), k_known_directories.end());
  std::vector<fs::path> directories;
  for (const auto& candidate : candidates) {
    std::error_code missing;
    const fs::path directory = fs::canonical(at(paths, candidate), missing);
    if (!missing && std::ranges::find(directories, directory) == directories.end()) directories.push_back(directory);
  }
  return directories;
}

// libcuda.so.535.183.01; WSL's copies carry no version.
std::optional<fs::path> find_library(const std::vector<fs::path>& directories, const Library& library,
                                     const std::string& version) {
  std::error_code ignored;
  for (const auto& directory : directories) {
    const fs::path versioned = directory / fmt::format("{}.{}", library.stem, version);
    if (fs::is_regular_file(versioned, ignored)) return versioned;
  }
  for (const auto& directory : directories) {
    const fs::path plain = directory / fmt::format("{}.1", library.stem);
    if (directory.filename() == "lib" && directory.parent_path().filename() == "wsl" &&
        fs::is_regular_file(plain, ignored))
      return plain;
  }
  return std::nullopt;
}

// Names beside the real file that lead to it (libcuda.so, libcuda.so.1), and its SONAME in any case.
std::vector<std::string> names_of(const fs::path& file, const Library& library) {
  std::vector<std::string> names{file.filename().string()};
  const auto add = [&](std::string name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  };
  add(std::string(library.soname));
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(file.parent_path(), failure)) {
    std::error_code broken;
    const std::string name = entry.path().filename().string();
    if (name.starts_with(library.stem) && entry.is_symlink(broken) && fs::equivalent(entry.path(), file, broken))
      add(name);
  }
  std::sort(names.begin() + 1, names.end());
  return names;
}

Error missing_library(const Library& library, const std::string& version) {
  const std::string branch = version.substr(0, version.find('.'));
  return base::error(ErrorCode::not_found, fmt::format("driver {} is loaded, but its {}.{} is nowhere on this host",
                                                       version, library.stem, version))
      .with_context("looked in /etc/ld.so.cache and the usual library directories")
      .with_hint(
          fmt::format("install the driver's compute libraries of the same version (Debian: `apt install libcuda1 "
                      "libnvidia-ml1`, Ubuntu: `apt install libnvidia-compute-{}`)",
                      branch));
}

}  // namespace

std::vector<std::string> cached_library_directories(std::string_view cache,
                                                    const std::vector<std::string_view>& prefixes) {
  const std::string_view data = without_old_cache(cache);
  std::vector<std::string> directories;
  if (!data.starts_with(k_cache_magic)) return directories;
  const std::size_t entries = word_at(data, k_cache_magic.size()).value_or(0);
  for (std::size_t index = 0; index < entries; ++index) {
    const std::size_t entry = k_header + index * k_entry;
    const auto key = word_at(data, entry + 4);
    const auto value = word_at(data, entry + 8);
    if (!key || !value) break;
    const std::string_view name = text_at(data, *key);
    if (std::ranges::none_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); })) continue;
    const std::string directory = fs::path(text_at(data, *value)).parent_path().string();
    if (directory.starts_with('/') && std::ranges::find(directories, directory) == directories.end())
      directories.push_back(directory);
  }
  return directories;
}

Result<std::vector<DriverFile>> driver_libraries(const HostPaths& paths, const std::string& version) {
  const auto directories = library_directories(paths);
  std::vector<DriverFile> files;
  for (const auto& library : k_libraries) {
    const auto file = find_library(directories, library, version);
    if (!file && library.need == Need::required) return fail(missing_library(library, version));
    if (!file) continue;
    for (const auto& name : names_of(*file, library))
      files.push_back(
          {.host_path = *file, .container_path = fmt::format("{}/{}", k_container_library_directory, name)});
  }
  return files;
}

std::vector<DriverFile> driver_programs(const HostPaths& paths) {
  std::vector<DriverFile> files;
  for (const std::string_view path : {"/usr/bin/nvidia-smi", "/run/nvidia-persistenced/socket"}) {
    std::error_code missing;
    const fs::path real = fs::canonical(at(paths, path), missing);  // Debian's nvidia-smi is an alternatives link
    if (!missing) files.push_back({.host_path = real, .container_path = std::string(path)});
  }
  return files;
}

}  // namespace startrail::machine
