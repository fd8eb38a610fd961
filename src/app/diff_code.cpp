#include "app/diff_code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/files.hpp"
#include "base/process.hpp"
#include "run/snapshot.hpp"

namespace startrail::app {
namespace {

constexpr Bytes k_largest_shown{256U << 10U};

// A restored snapshot that goes away with this object.
class Restored {
 public:
  static Result<Restored> make(const fs::path& snapshots, const std::string& id) {
    Restored restored(TRY(base::make_temporary_directory(fs::temp_directory_path(), "trail-diff")));
    TRY(run::restore_snapshot(snapshots, id, restored.m_folder / "code"));
    return restored;
  }
  Restored(Restored&& other) noexcept : m_folder(std::exchange(other.m_folder, {})) {}
  Restored& operator=(Restored&&) = delete;
  ~Restored() {
    if (!m_folder.empty()) (void)base::remove_tree(m_folder);
  }
  [[nodiscard]] fs::path file(const std::string& path) const { return m_folder / "code" / path; }

 private:
  explicit Restored(fs::path folder) : m_folder(std::move(folder)) {}
  fs::path m_folder;
};

bool is_small_text(const fs::path& file) {
  const auto content = base::read_file(file, k_largest_shown);
  return content && content->find('\0') == std::string::npos;
}

Json unified_diff(const Restored& a, const Restored& b, const std::string& path) {
  if (!is_small_text(a.file(path)) || !is_small_text(b.file(path))) return nullptr;
  const auto result = base::run_process({.argv = {"diff", "-u", "--label", "a/" + path, "--label", "b/" + path,
                                                  a.file(path).string(), b.file(path).string()}});
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
  std::vector<std::string> differing;
  for (const auto& [path, digest] : files_b.items())
    if (!files_a.contains(path)) added.push_back(path);
  for (const auto& [path, digest] : files_a.items()) {
    if (!files_b.contains(path))
      removed.push_back(path);
    else if (files_b[path] != digest)
      differing.push_back(path);
  }
  if (!differing.empty()) {
    const auto code_a = TRY(Restored::make(snapshots, a));
    const auto code_b = TRY(Restored::make(snapshots, b));
    for (const auto& path : differing)
      changed.push_back(Json{{"path", path}, {"diff", unified_diff(code_a, code_b, path)}});
  }
  if (added.empty() && removed.empty() && changed.empty()) return Json(nullptr);
  return Json{{"added", added}, {"removed", removed}, {"changed", changed}};
}

}  // namespace startrail::app
