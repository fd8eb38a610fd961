#include "app/diff_code.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/process.hpp"
#include "run/snapshot.hpp"
#include "run/snapshot_objects.hpp"

namespace startrail::app {
namespace {

constexpr Bytes k_largest_shown{256U << 10U};

// A folder for two versions of one file after the other; goes away with this object.
class Scratch {
 public:
  static Result<Scratch> make() {
    return Scratch(TRY(base::make_temporary_directory(fs::temp_directory_path(), "trail-diff")));
  }
  Scratch(Scratch&& other) noexcept : m_folder(std::exchange(other.m_folder, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    if (!m_folder.empty()) (void)base::remove_tree(m_folder);
  }
  [[nodiscard]] fs::path file(std::string_view name) const { return m_folder / name; }

 private:
  explicit Scratch(fs::path folder) : m_folder(std::move(folder)) {}
  fs::path m_folder;
};

bool is_small_text(const fs::path& file) {
  const auto content = base::read_file(file, k_largest_shown);
  return content && content->find('\0') == std::string::npos;
}

struct Versions {
  std::string path, a, b;  // digests
};

Json unified_diff(const run::SnapshotObjects& objects, const Scratch& scratch, const Versions& versions) {
  const fs::path a = scratch.file("a"), b = scratch.file("b");
  (void)base::remove_tree(a);
  (void)base::remove_tree(b);
  constexpr mode_t mode = 0600;
  if (!objects.extract(versions.a, a, mode) || !objects.extract(versions.b, b, mode)) return nullptr;
  if (!is_small_text(a) || !is_small_text(b)) return nullptr;
  const auto result = base::run_process({.argv = {"diff", "-u", "--label", "a/" + versions.path, "--label",
                                                  "b/" + versions.path, a.string(), b.string()}});
  if (!result || result->exit_code > 1) return nullptr;
  return result->output;
}

}  // namespace

Result<Json> diff_code(const fs::path& snapshots, const std::string& a, const std::string& b) {
  if (a == b) return Json(nullptr);
  if (a.empty() || b.empty()) return Json{{"unknown", "one of the runs has no snapshot of its code"}};
  const Json files_a = base::member(TRY(run::snapshot_manifest(snapshots, a)), "files");
  const Json files_b = base::member(TRY(run::snapshot_manifest(snapshots, b)), "files");
  Json added = Json::array(), removed = Json::array(), changed = Json::array();
  const run::SnapshotObjects objects(snapshots);
  const auto scratch = TRY(Scratch::make());
  for (const auto& [path, digest] : files_b.items())
    if (!files_a.contains(path)) added.push_back(path);
  for (const auto& [path, digest] : files_a.items()) {
    if (!files_b.contains(path))
      removed.push_back(path);
    else if (files_b[path] != digest)
      changed.push_back(
          Json{{"path", path},
               {"diff",
                unified_diff(objects, scratch, {path, digest.get<std::string>(), files_b[path].get<std::string>()})}});
  }
  if (added.empty() && removed.empty() && changed.empty()) return Json(nullptr);
  return Json{{"added", added}, {"removed", removed}, {"changed", changed}};
}

}  // namespace startrail::app
