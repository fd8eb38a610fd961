#include "image/skeleton.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <limits>

#include "base/files.hpp"

namespace startrail::image {
namespace {

constexpr int k_base_depth = 2;
constexpr int k_all_of_it = std::numeric_limits<int>::max();

Result<void> make_folder(const fs::path& place, mode_t mode) {
  TRY(base::make_directories(place));
  if (::chmod(place.c_str(), mode) == 0) return {};
  return base::fail(base::errno_error(fmt::format("cannot set the mode of {}", place.string()), errno));
}

// Of `theirs` in `own`, `depth` levels down.
Result<void> make_folders(const fs::path& theirs, const fs::path& own, int depth) {
  std::error_code failed;
  bool has_modules = false;
  for (const auto& entry : fs::directory_iterator(theirs, fs::directory_options::skip_permission_denied, failed)) {
    has_modules = has_modules || entry.path().extension() == ".py";
    struct stat status{};
    if (::lstat(entry.path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    const fs::path place = own / entry.path().filename();
    TRY(make_folder(place, status.st_mode & 07777));
    if (depth > 1) TRY(make_folders(entry.path(), place, depth - 1));
  }
  // Root's bytecode has one, and lies in a layer of its own, which may come later.
  if (has_modules && depth > 1) return make_folder(own / "__pycache__", 0755);
  return {};
}

}  // namespace

Result<void> make_skeleton(const fs::path& base_root, const fs::path& tree, const fs::path& skeleton) {
  TRY(make_folders(base_root, skeleton, k_base_depth));
  return make_folders(tree, skeleton, k_all_of_it);
}

}  // namespace startrail::image
