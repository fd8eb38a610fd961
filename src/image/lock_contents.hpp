// A lock as the store sees it: wheels to fetch, and wheels to be built first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "image/image_folder.hpp"
#include "image/pipeline.hpp"
#include "image/store.hpp"
#include "lock/lock.hpp"

namespace startrail::image {

struct LockedWheel {
  WheelSource source;      // sha256 is empty while it must be built first
  std::string direct_url;  // content of direct_url.json; "" for a package of an index
};

struct LockedBuild {
  lock::LockedPackage package;
  std::string key;     // of built/: what decides the result
  std::string sha256;  // of the wheel that was built from it, if the store still has that wheel's tree
  std::string direct_url;
};

struct LockContents {
  std::vector<LockedWheel> wheels;
  std::vector<LockedBuild> builds;     // part of the image
  std::vector<LockedBuild> editables;  // beside it: see DerivedImage in image_folder.hpp
};

// `lock_directory` may be empty when only sizes are wanted: the content of local folders is then taken from the lock.
// Errors: corrupt (a package without a hash), not_found (a folder that isn't there).
[[nodiscard]] Result<LockContents> lock_contents(const lock::Lock& lock, const std::filesystem::path& lock_directory,
                                                 const Store& store);

// The image without editables; every build's wheel is known.
[[nodiscard]] Manifest main_manifest(const lock::Lock& lock, const LockContents& contents,
                                     const std::string& base_recipe, const std::string& base_digest);

// Notes that this wheel, whose tree is in the store, was built from that key.
[[nodiscard]] Result<void> remember_build(const Store& store, const LockedBuild& build, const std::string& sha256);

}  // namespace startrail::image
