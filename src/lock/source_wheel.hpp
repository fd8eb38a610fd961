// One package built from source into a wheel, inside the sandbox, on the image's base, with network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "lock/lock.hpp"
#include "lock/uv_environment.hpp"
#include "machine/machine.hpp"

namespace startrail::lock {

struct SourceBuild {
  std::string suite;                     // of the lock; each suite has caches of its own
  std::filesystem::path base;            // root of the base: its Python builds, its compiler compiles
  std::filesystem::path lock_directory;  // the project: what the lock's relative paths are relative to
  std::filesystem::path state_root;      // tools and caches live below
  UvIndexes indexes;                     // where build requirements come from
  // For sources that are compiled against torch: the complete lock that they belong to, and what lends its image.
  const Lock* lock = nullptr;
  const BaseProvider* provider = nullptr;
};

// Builds `package`, which is of any kind but wheel, by its PEP 517 backend, and returns the wheel's path in a cache
// below state_root; a second call for the same content and suite finds it there. Safe to call from several processes at
// once. Downloads are checked against the lock's hash before anything of them is read. Old sources get what they need
// and don't declare (setuptools with pkg_resources, numpy), each told to the reporter.
//
// An editable directory becomes a PEP 660 wheel: metadata, entry points, and a .pth (or the backend's import hook) that
// leads to /workspace, where every run sees the project. So its console scripts exist and its code is always the
// folder's current one. One that compiles extensions is refused: they would lie in the folder, not in the image.
//
// One that the lock has among `built_with_torch` is built on the lock's own image, with its CUDA's compiler
// (torch_layer.hpp), and kept by all that decides the result: torch, CUDA, Python, compiler, architectures.
//
// Errors: network, hash_mismatch, not_found, refused (it doesn't build: the last words of the backend), unsupported.
[[nodiscard]] Result<std::filesystem::path> build_source_wheel(const LockedPackage& package, const SourceBuild& build,
                                                               const machine::Machine& machine, Reporter& reporter);

// The Requires-Dist lines of the wheel of a source that is compiled against torch, as it was built.
[[nodiscard]] std::vector<std::string> requirements_of_built(const std::filesystem::path& wheel);

}  // namespace startrail::lock
