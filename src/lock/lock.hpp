// pylock.trail.toml: PEP 751 with [tool.startrail]. uv resolves; reading and writing are ours.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "base/reporter.hpp"
#include "base/units.hpp"
#include "catalog/catalog.hpp"
#include "machine/machine.hpp"
#include "project/requirements.hpp"

namespace startrail::lock {

inline constexpr const char* k_lock_file_name = "pylock.trail.toml";

enum class PackageKind { wheel, sdist, vcs, archive, directory };

struct Artifact {  // a wheel, sdist or archive
  std::string filename;
  std::string url;   // may be empty (name lookup in the configured index), may be a path for local files
  std::string path;  // relative to the lock, for local files
  Bytes size;        // 0 when the index does not say
  std::string sha256;
};

struct LockedPackage {
  std::string name;     // normalised
  std::string version;  // "" only for directories without a static version
  PackageKind kind = PackageKind::wheel;
  Artifact artifact;  // wheel, sdist, archive
  std::string vcs_type, vcs_url, vcs_commit, subdirectory;
  std::string directory;  // relative to the lock
  project::Editable editable = project::Editable::no;
  std::string import_root;  // of the editable that is a line of Python's search path only: see own_code.hpp
  std::string index;
};

// It comes as a wheel, from an index or from elsewhere: nothing needs to be built.
[[nodiscard]] inline bool is_wheel(const LockedPackage& package) {
  return package.kind == PackageKind::wheel ||
         (package.kind == PackageKind::archive && package.artifact.filename.ends_with(".whl"));
}

// What [tool.startrail] holds beside PEP 751's own fields.
struct Lock {
  int schema = 1;
  std::string python;       // "3.11"
  std::string suite;        // "bookworm"
  std::string base_recipe;  // image::base_recipe(...).digest: what the base is made from, known offline
  std::string base_digest;  // SHA-256 of the base that was used, "" until it is first made
  std::vector<std::string> system_packages;
  project::Build build = project::Build::gpu;
  std::string framework, framework_version;  // "torch", "2.6.0"; "" when there is none
  std::string cuda, cudnn, nccl, driver_floor;
  std::vector<std::string> architectures;
  // Sources that are compiled against the locked torch, and the compute capabilities that their CUDA code is for, which
  // are those of the machine that locked: see torch_build.hpp. Empty for most.
  std::vector<std::string> built_with_torch, build_architectures;
  // What libraries beside the framework need to be found, "LD_LIBRARY_PATH={site}/nvidia/cudnn/lib"; "{site}" is the
  // environment's site-packages. Empty for most.
  std::vector<std::string> environment;
  std::vector<project::SourceFile> inputs;  // what was read, with hashes
  std::string settings_digest;              // build, python and packages asked for by flags and trail.toml
  std::vector<std::string> notes;           // "Python 3.8 asked for, 3.9 taken"
  std::vector<LockedPackage> packages;      // sorted by name
};

// SHA-256 over the canonical content that decides the image (not notes, not inputs, not addresses).
[[nodiscard]] std::string digest(const Lock& lock);

// Errors: not_found, corrupt (line and field), unsupported (lock-version, other platform).
// Also reads locks of other tools (uv, pip, pdm): then [tool.startrail] fields are empty, and of several
// wheels the best for (python, x86_64, glibc of `suite`) is taken by PEP 425 tags.
[[nodiscard]] Result<Lock> read_lock(const std::filesystem::path& file, const std::string& python_if_absent = "3.11");
[[nodiscard]] std::string to_toml(const Lock& lock);
[[nodiscard]] Result<void> write_lock(const Lock& lock, const std::filesystem::path& file);

// The lock still says what resolving would start from (same inputs, same settings, same suite rules).
// nullopt when it does; else the reason, one clause ("requirements.txt changed").
[[nodiscard]] std::optional<std::string> out_of_date(const Lock& lock, const project::Requirements& needs,
                                                     const catalog::ChooseOptions& options);

// Bases belong to a higher module (image), so the caller lends them: the recipe's digest, known offline,
// and the root of a base made on demand, for resolving inside the sandbox.
struct BaseProvider {
  std::function<std::string(const std::string& suite, const std::vector<std::string>& system_packages)> recipe_digest;
  std::function<Result<std::filesystem::path>(const std::string& suite, const std::vector<std::string>& system_packages,
                                              Reporter& reporter)>
      ensure;
  // Lower directories, topmost first, of the image that this lock makes, whose local files lie beside `lock_directory`.
  std::function<Result<std::vector<std::filesystem::path>>(
      const Lock& lock, const std::filesystem::path& lock_directory, Reporter& reporter)>
      layers;
  // Puts the files of one Debian package of main or non-free, without its dependencies, below the new folder `target`.
  std::function<Result<void>(const std::string& suite, const std::string& package, const std::filesystem::path& target,
                             Reporter& reporter)>
      unpack_package;
};

struct ResolveOptions {
  BaseProvider base;
  std::filesystem::path state_root;      // tools/ (uv, fetched once, pinned by hash) and caches live below
  std::optional<std::string> framework;  // --framework torch==2.10.0
  std::string framework_origin = "--framework";
  bool upgrade = false;  // forget earlier pins
};

// Resolves with uv: outside the sandbox with --no-build when wheels suffice, else inside, on the base.
// Tries choice.pythons in order. Errors: refused (uv's conflict told shortly: both sides with file:line, ways
// out), network, invalid_input.
[[nodiscard]] Result<Lock> resolve(const project::Requirements& needs, const catalog::Choice& choice,
                                   const machine::Machine& machine, const ResolveOptions& options, Reporter& reporter);

// uv itself: a path to the pinned binary, fetched from the configured index when absent.
[[nodiscard]] Result<std::filesystem::path> ensure_uv(const std::filesystem::path& state_root, Reporter& reporter);

// pipreqs' map of import names, likewise pinned and fetched once.
struct ModuleMap {
  std::filesystem::path mapping, standard_library;
};
[[nodiscard]] Result<ModuleMap> ensure_module_map(const std::filesystem::path& state_root, Reporter& reporter);

// The index as uv and pip would use it: UV_DEFAULT_INDEX, UV_INDEX_URL, uv.toml, PIP_INDEX_URL, pip.conf,
// else pip's own default (compiled in from pip at build time).
enum class IndexSearch {
  first_index,  // the first index that has the project decides, as uv does it
  best_match,   // the best version of all indexes, as pip does it
};
struct IndexConfiguration {
  std::string default_index;
  std::vector<std::string> extra_indexes;
  std::vector<std::string> find_links;
  IndexSearch search = IndexSearch::best_match;
  std::string certificates;  // SSL_CERT_FILE, PIP_CERT or pip's `cert`; "" for the system's
};
[[nodiscard]] IndexConfiguration index_configuration();

// One file of a project's page, with what the index says of it.
enum class Yanked { no, yes };
struct IndexFile {
  Artifact artifact;
  std::string requires_python;
  Yanked yanked = Yanked::no;
};
// Errors: not_found (the index doesn't have the project), network, corrupt.
[[nodiscard]] Result<std::vector<IndexFile>> index_page(const std::string& index_url, const std::string& project);

// Addresses of a project's files in an index, by PEP 691 JSON or PEP 503 HTML.
[[nodiscard]] Result<std::vector<Artifact>> index_files(const std::string& index_url, const std::string& project);

}  // namespace startrail::lock
