// Images: an immutable root filesystem made from a lock. This header is what other modules use;
// store.hpp, wheel.hpp, base_system.hpp and pipeline.hpp hold the parts.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json_fwd.hpp"
#include "base/process.hpp"
#include "base/reporter.hpp"
#include "base/units.hpp"
#include "lock/lock.hpp"
#include "machine/machine.hpp"

namespace startrail::image {

enum class Arrival { complete, still_arriving };  // a later version starts runs on lazy images

struct Image {
  std::string id;  // "sha256:<64 hex>" of its manifest
  // Topmost first: (editables), environment, (bytecode), base.
  std::vector<std::filesystem::path> layers;
  Arrival arrival = Arrival::complete;
  std::string python;             // "3.11"
  base::Environment environment;  // PATH, VIRTUAL_ENV, SSL_CERT_FILE, LANG …: what the image itself sets
  bool has_bytecode = false;      // its layer is among `layers`
};

// What making the image would cost, known from the lock and the store alone.
struct Plan {
  Bytes download;     // not yet in the store
  Bytes disk_needed;  // estimate of what will be added to the store
  Bytes disk_free;
  int wheels_missing = 0, wheels_total = 0, builds = 0;
  bool base_missing = false;
};
// Without `lock_directory`, local folders to build are taken to be as the lock saw them.
[[nodiscard]] Result<Plan> plan(const lock::Lock& lock, const std::filesystem::path& store,
                                const std::filesystem::path& lock_directory = {});

struct EnsureOptions {
  std::filesystem::path store;           // …/store
  std::filesystem::path lock_directory;  // what the lock's relative paths are relative to
};
// Makes the image, or finds it; several callers at once share the work. The plan is checked first:
// no_space before the first byte. A crash at any instant leaves a usable store.
// Errors: no_space, network, hash_mismatch, corrupt, unsafe_path, conflict, refused (an sdist that doesn't build).
[[nodiscard]] Result<Image> ensure(const lock::Lock& lock, const machine::Machine& machine,
                                   const EnsureOptions& options, Reporter& reporter);

// By name, id or unique prefix (with or without "sha256:"). Errors: not_found, invalid_input (ambiguous).
[[nodiscard]] Result<Image> open(const std::filesystem::path& store, const std::string& id_or_prefix);
[[nodiscard]] Result<Json> inspect(const std::filesystem::path& store, const std::string& id_or_prefix);

struct Summary {
  std::string id, name, origin;  // the last two are "" of an image without a name, and of one that was built here
  std::string framework, framework_version, python, suite;
  Bytes size;  // of its tree, shared or not
  int packages = 0;
  base::Time created, last_used;
};
[[nodiscard]] Result<std::vector<Summary>> list(const std::filesystem::path& store);  // newest first

// The right to rely on what the store has, shared with others: nothing is taken out of it meanwhile. Before that,
// what a power cut left in doubt is settled, for which nobody may hold the store.
// Errors: permission, no_space; conflict when somebody else keeps at work in a store that is in doubt.
[[nodiscard]] Result<base::Fd> hold_store(const std::filesystem::path& store, Reporter& reporter);

// `compile_bytecode` would do something.
[[nodiscard]] bool wants_background_work(const Image& image, const std::filesystem::path& store);
// Compiles bytecode of the image's wheels in idle time, into layers beside it. Detached callers run this;
// a second call returns at once. Then waits until the disk has what was built, so that a power cut takes nothing. See
// DESIGN "Bytecode is compiled once per wheel".
[[nodiscard]] Result<void> compile_bytecode(const Image& image, const std::filesystem::path& store,
                                            const machine::Machine& machine, Reporter& reporter);

enum class PruneMode { remove, only_tell };
struct PruneOptions {
  std::vector<std::string> keep_images = {};  // ids used by live runs
  // An image goes for either reason: nobody used it for so long; or it is the least recently used one of a store that
  // is larger than this. Without a reason given, every image goes.
  std::optional<std::chrono::seconds> unused_for = {};
  std::optional<Bytes> keep = {};
  bool everything_unused = false;  // also wheels and bases that no image has
  PruneMode mode = PruneMode::remove;
};
struct PruneResult {
  int images = 0, wheels = 0, bases = 0;
  Bytes freed;                         // of the disk: what has a hard link elsewhere isn't
  Bytes size;                          // of the store then, hard links once
  std::vector<std::string> image_ids;  // those that went, in that order
};
// Removes images and what only they needed: wheels, layers, bytecode, bases. What a live run uses, and what was used
// moments ago, stays. With `keep`, what no image needs goes before any image does.
// Errors: conflict (a build goes on).
[[nodiscard]] Result<PruneResult> prune(const std::filesystem::path& store, const PruneOptions& options,
                                        Reporter& reporter);

struct ImageUsage {
  std::string id, name;  // name "" of an image without one
  Bytes size;            // of all that it needs: what a store with this image alone would take
  Bytes own;             // what would come free if it went; the rest is shared
  base::Time last_used;
};
struct DiskUsage {
  std::vector<ImageUsage> images;  // the largest own first
  // What the disk has, each file once however many names it has. `trees` is what images have beside wheels and layers.
  Bytes wheels, layers, bases, bytecode, trees, unfinished, other, total;
  Bytes unneeded;  // of these: what no image needs
};
// Asks for the status of files only. What is made or removed meanwhile may be counted or not.
[[nodiscard]] Result<DiskUsage> disk_usage(const std::filesystem::path& store);

struct StoreFault {
  enum class Kind {
    damaged,   // `owner` can't be used as it is
    mode,      // of a file that is right otherwise
    stranger,  // a file that belongs to nothing
    leftover,  // of a build that ended early; the next one of the same thing would remove it
  } kind = Kind::damaged;
  std::string what;  // "wheel torch-2.6.0…: torch/lib/libc10.so differs from RECORD"
  std::filesystem::path path;
  std::filesystem::path owner;  // the tree of a wheel, image, bytecode layer or base that it is a part of
  unsigned right_mode = 0;
};
// Every file of every wheel against RECORD, every base against its digest, every file and link of every image against
// its wheels, every manifest against its name, and what belongs to nothing.
[[nodiscard]] Result<std::vector<StoreFault>> verify_store(const std::filesystem::path& store, Reporter& reporter);

struct RepairOptions {
  std::vector<std::string> keep_images;  // ids used by live runs
};
struct RepairResult {
  std::vector<StoreFault> repaired;
  std::vector<StoreFault> left;     // something that a live run uses
  std::vector<std::string> images;  // ids of the images that went: damaged, or made from what was
};
// Verifies, then removes what is damaged and every image made from it, so that the next build fetches and makes it
// again. What a live run uses, or an image used some seconds ago, is left as it is. Waits a while for builds to end.
// Errors: conflict (a build goes on).
[[nodiscard]] Result<RepairResult> repair_store(const std::filesystem::path& store, const RepairOptions& options,
                                                Reporter& reporter);

// ---- bases (base_system.cpp) ----
struct BaseRecipe {
  std::string suite;                  // "bookworm"
  std::vector<std::string> packages;  // sorted, ours plus system-packages
  std::string digest;                 // of suite, architecture, packages, recipe version: known offline
};
[[nodiscard]] BaseRecipe base_recipe(const std::string& suite, const std::vector<std::string>& system_packages);

struct BaseSystem {
  std::string recipe;          // BaseRecipe::digest
  std::string digest;          // SHA-256 of its content (normalised tar)
  std::filesystem::path root;  // read-only tree
  Bytes size;
};
// Makes it with mmdebstrap, or finds it. Errors: not_found (no mmdebstrap), network, no_space, refused (unknown
// package).
[[nodiscard]] Result<BaseSystem> ensure_base(const std::filesystem::path& store, const BaseRecipe& recipe,
                                             Reporter& reporter);
[[nodiscard]] std::optional<BaseSystem> find_base(const std::filesystem::path& store, const std::string& recipe_digest);

}  // namespace startrail::image
