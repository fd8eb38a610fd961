// What a folder of training code needs, and where each fact was read.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"

namespace startrail::project {

// A place in the user's files: "requirements.txt:3". Line 0: the file as a whole.
struct Origin {
  std::string file;  // relative to the project folder, '/'-separated
  int line = 0;
  bool operator==(const Origin&) const = default;
};
[[nodiscard]] std::string to_text(const Origin& origin);

template <class T>
struct Fact {
  T value;
  Origin origin;
};

enum class SourceKind { index, vcs, archive, directory };
enum class Editable { no, yes };

struct Requirement {
  std::string name;  // normalised (PEP 503); empty when a bare URL or path doesn't give one
  std::vector<std::string> extras;
  std::string specifier;  // PEP 440 set, "" for any: ">=2.0,<3"
  std::string marker;     // PEP 508 marker without ';', "" for none
  SourceKind kind = SourceKind::index;
  std::string location;              // vcs: "git+https://…@rev#subdirectory=…"; archive: URL or path; directory: path
  Editable editable = Editable::no;  // also of a VCS checkout, where it is the user's wish only
  std::vector<std::string> hashes;   // "sha256:…" from --hash: one of them must match what is installed
  Origin origin;
  std::string as_written;  // the user's own text, for messages
};
// The line uv understands: "torch[extra]>=2.0 ; marker", "name @ git+https://…", "-e ./path" (relative to the project
// folder). Without hashes. uv refuses editable VCS entries, so these come out as plain ones.
[[nodiscard]] std::string to_pep508(const Requirement& requirement);

// Package index options, as pip's requirements files and uv's pyproject tables give them.
struct IndexOptions {
  std::optional<Fact<std::string>> index_url;
  std::vector<Fact<std::string>> extra_index_urls;
  std::vector<Fact<std::string>> find_links;
  std::map<std::string, std::string> package_index;  // [tool.uv.sources]: package → index URL
  std::optional<Origin> no_index;                    // --no-index: only find_links are searched
  std::optional<Origin> prereleases;                 // --pre: pre-releases of every package may be taken
};

// Something whose content decided something; a lock is compared with these. Mostly a file's SHA-256. Of
// trail.toml and pyproject.toml only the tables that were read count, so that a change of [run] or of a linter's
// settings keeps a lock valid. "imports" stands for the sorted list of imported packages.
struct SourceFile {
  std::string file;
  std::string sha256;
};

enum class Build { gpu, cpu };

// trail.toml's [run], [volumes] and so on; every field has a default.
struct Settings {
  std::optional<Fact<std::string>> image;
  std::optional<Build> build;                    // [environment] cpu = true
  std::vector<std::string> build_with_torch;     // [environment] build-with-torch: names, normalised
  std::vector<std::string> build_architectures;  // [environment] build-architectures: "9.0", in place of the machine's
  std::optional<int> gpus;
  std::optional<int> nodes;
  std::optional<Bytes> memory;
  std::optional<double> cpus;
  std::optional<int> pids;
  std::optional<Bytes> shm_size;
  std::map<std::string, std::string> environment;
  std::vector<std::string> datasets;
  std::optional<int> stop_grace_seconds;
};

// What kind of file the packages come from, in the order in which `read` prefers them.
enum class DeclaredBy {
  trail_toml,
  pylock,
  uv_lock,
  pyproject,
  requirements_txt,
  conda,
  pipfile,
  setup_py,
  requirement_list,
  imports,
  nothing
};

struct Requirements {
  std::filesystem::path folder;
  DeclaredBy declared_by = DeclaredBy::nothing;
  std::vector<Requirement> packages;               // of an existing lock: its pins, for choosing only
  std::vector<Requirement> constraints;            // -c files: bounds, not requests
  std::optional<Fact<std::string>> python;         // PEP 440 set: ">=3.8"; conda's python=3.8.5 is "==3.8.*"
  std::optional<Fact<std::string>> cuda;           // conda's cudatoolkit=11.3 → "11.3"
  std::optional<Fact<std::string>> existing_lock;  // pylock.toml or uv.lock: taken instead of resolving
  IndexOptions indexes;
  std::vector<Fact<std::string>> system_packages;
  std::optional<Fact<std::vector<std::string>>> command;  // only when unambiguous
  Settings settings;
  std::vector<SourceFile> sources;               // sorted by file
  std::optional<Fact<std::string>> own_package;  // the project is a package of this name: see project/own_code.hpp
  std::vector<std::string> import_roots;         // where its own packages lie: ".", "src"; empty when it has none
  std::vector<Fact<std::string>> notes;          // what was skipped, mapped or contradicts, one sentence each
};

struct ReadOptions {
  std::vector<std::string> requirement_files;  // `-r FILE`: read these instead of looking around
  // pipreqs' module→distribution map and standard-library list; without them, imports are named but not mapped.
  std::filesystem::path module_map;
  std::filesystem::path standard_library_list;
};

// Reads the folder. Never runs its code, never touches the network.
// An unusable line is an error that names file and line (invalid_input), not a skipped one.
// Errors: not_found, permission, invalid_input, corrupt.
[[nodiscard]] Result<Requirements> read(const std::filesystem::path& folder, const ReadOptions& options);

// True when `read` would need the module map: nothing is declared, but there is Python code.
[[nodiscard]] bool needs_module_map(const std::filesystem::path& folder);

// PEP 503: lower case, runs of [-_.] become '-'.
[[nodiscard]] std::string normalized_name(std::string_view name);

}  // namespace startrail::project
