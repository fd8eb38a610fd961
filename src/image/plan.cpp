// What an image would cost, before anything is fetched.
#include <sys/stat.h>

#include <algorithm>

#include "base/files.hpp"
#include "image/image.hpp"
#include "image/lock_contents.hpp"
#include "image/making.hpp"
#include "image/oci/pulled_image.hpp"

namespace startrail::image {
namespace {

// Of a wheel's size, unpacked: 1.9 over the wheels of torch with CUDA.
constexpr double k_unpacked_ratio = 2.0;
// A base with compiler takes 780 MB; its packages are fetched into it.
constexpr std::uint64_t k_base_size = 1'000'000'000;

std::uint64_t arrived(const fs::path& part) {
  struct stat status{};
  return ::stat(part.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * 512 : 0;
}

// An image that came from elsewhere needs neither its wheels nor its base's recipe. As `ensure` does, a base that was
// made here by that recipe goes first.
bool is_here_from_elsewhere(const lock::Lock& lock, const LockContents& contents, const Store& store,
                            const std::optional<BaseSystem>& base, const std::string& recipe) {
  if (!contents.builds.empty() || !contents.editables.empty()) return false;
  const std::string digest = base ? base->digest : lock.base_digest;
  return !digest.empty() && is_pulled(store, manifest_id(main_manifest(lock, contents, recipe, digest)));
}

}  // namespace

Result<Plan> plan(const lock::Lock& lock, const fs::path& store_path, const fs::path& lock_directory) {
  const Store store = Store::at(store_path);
  const LockContents contents = TRY(lock_contents(lock, lock_directory, store));
  const Bytes disk_free = TRY(base::free_space(store_path));
  Plan plan{.download = {}, .disk_needed = {}, .disk_free = disk_free};
  for (const LockedWheel& wheel : contents.wheels) {
    ++plan.wheels_total;
    if (store.has_wheel(wheel.source.sha256)) continue;
    ++plan.wheels_missing;
    const std::uint64_t size = wheel.source.size;
    const std::uint64_t left = size - std::min(size, arrived(store.part(wheel.source.sha256)));
    plan.download += Bytes{left};
    plan.disk_needed += Bytes{static_cast<std::uint64_t>(static_cast<double>(size) * k_unpacked_ratio)};
  }
  // Archives go when they are unpacked, so never all of them are there at once.
  plan.disk_needed += Bytes{std::min(plan.download.count, archive_window(0))};
  const auto is_missing = [&](const LockedBuild& build) {
    const bool unknown = lock_directory.empty() && build.package.kind == lock::PackageKind::directory;
    return build.sha256.empty() && !unknown;
  };
  plan.builds = static_cast<int>(std::ranges::count_if(contents.builds, is_missing) +
                                 std::ranges::count_if(contents.editables, is_missing));
  const BaseRecipe recipe = base_recipe(TRY(suite_of(lock)), lock.system_packages);
  const auto base = find_base(store_path, recipe.digest);
  plan.base_missing = !base;
  if ((plan.wheels_missing > 0 || plan.base_missing) &&
      is_here_from_elsewhere(lock, contents, store, base, recipe.digest))
    return Plan{.disk_free = disk_free, .wheels_total = plan.wheels_total};
  if (plan.base_missing) plan.disk_needed += Bytes{k_base_size};
  return plan;
}

}  // namespace startrail::image
