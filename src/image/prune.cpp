// Taking out of the store what nothing needs.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include <sys/stat.h>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "image/image_folder.hpp"
#include "image/oci/names.hpp"
#include "image/oci/pulled_image.hpp"

namespace startrail::image {
namespace {

// An image that was opened a moment ago may be about to start: its run isn't in anybody's list yet.
constexpr auto k_fresh = std::chrono::seconds(60);

// Bytes that come free when the tree goes: files with other links stay.
std::uint64_t own_size(const fs::path& tree) {
  std::uint64_t total = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(tree, fs::directory_options::skip_permission_denied, failed), end;
       !failed && at != end; at.increment(failed)) {
    struct stat status{};
    if (::lstat(at->path().c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1)
      total += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return total;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) entries.push_back(entry.path());
  return entries;
}

// The 64 digits that a name begins with.
std::string digest_in(const fs::path& entry) {
  return entry.filename().string().substr(0, 64);
}

class Pruning {
 public:
  Pruning(const Store& store, const PruneOptions& options, Reporter& reporter)
      : m_store(store), m_options(options), m_reporter(reporter) {}

  Result<PruneResult> run() {
    TRY(remove_images());
    TRY(remove_wheels());
    if (m_options.everything_unused) {
      TRY(remove_bases());
      for (const char* folder : {"downloads", "staging", "exported"})
        for (const fs::path& entry : entries_of(m_store.folder(folder))) TRY(remove(entry));
    }
    return m_result;
  }

 private:
  Result<void> remove(const fs::path& tree) {
    std::error_code ignored;
    const fs::file_status status = fs::symlink_status(tree, ignored);
    if (fs::is_regular_file(status)) {
      struct stat details{};
      if (::lstat(tree.c_str(), &details) == 0)
        m_result.freed += Bytes{static_cast<std::uint64_t>(details.st_blocks) * 512};
    } else {
      m_result.freed += Bytes{own_size(tree)};
    }
    return m_store.discard(tree);
  }

  // Of the images to keep: their parents too.
  std::set<std::string> kept_ids() const {
    std::set<std::string> kept;
    for (const std::string& id : m_options.keep_images) kept.insert(m_store.image(id).filename().string());
    const auto now = base::now();
    for (const std::string& id : image_ids(m_store)) {
      const auto age = now - last_used(m_store, id);
      if (age < k_fresh || (m_options.unused_for && age < *m_options.unused_for)) kept.insert(id);
    }
    for (const std::string& id : std::set(kept))
      if (const auto manifest = read_manifest(m_store, id); manifest && !manifest->parent.empty())
        kept.insert(m_store.image(manifest->parent).filename().string());
    return kept;
  }

  // What the image has of the store: wheels and their bytecode; of one from elsewhere layers, and bytecode of its own.
  void note(const std::string& id, const Manifest& manifest, std::set<std::string>& into) const {
    if (is_pulled(m_store, id)) {
      into.insert(id);
      for (const std::string& diff_id : pulled_layers(m_store, id)) into.insert(digest_in(m_store.layer(diff_id)));
      return;
    }
    for (const ManifestWheel& wheel : manifest.wheels) into.insert(wheel.sha256);
  }

  Result<void> remove_images() {
    const std::set<std::string> kept = kept_ids();
    for (const std::string& id : image_ids(m_store)) {
      const auto manifest = read_manifest(m_store, id);
      if (kept.contains(id)) {
        if (!manifest) continue;
        note(id, *manifest, m_needed);
        m_needed_bases.insert(manifest->base_digest);
        continue;
      }
      if (manifest) note(id, *manifest, m_released);
      m_reporter.step(fmt::format("removing image {}", id.substr(0, 12)));
      TRY(remove(m_store.image(id)));
      ++m_result.images;
    }
    return forget_lost_names(m_store);
  }

  // Wheels that only removed images had; with `everything_unused` those that no image has.
  Result<void> remove_wheels() {
    for (const char* folder : {"wheels", "bytecode", "layers"}) {
      for (const fs::path& entry : entries_of(m_store.folder(folder))) {
        const std::string sha256 = digest_in(entry);
        const bool goes = m_options.everything_unused || m_released.contains(sha256);
        if (!goes || m_needed.contains(sha256)) continue;
        TRY(remove(entry));
        if (entry.parent_path().filename() == "wheels") ++m_result.wheels;
      }
    }
    for (const fs::path& entry : entries_of(m_store.folder("built"))) {
      const auto json = base::read_json_file(entry);
      if (!json || !m_store.has_wheel(base::string_at(*json, "wheel"))) TRY(remove(entry));
    }
    return {};
  }

  Result<void> remove_bases() {
    const fs::path bases = m_store.folder("bases");
    for (const fs::path& entry : entries_of(bases)) {
      const std::string name = entry.filename().string();
      if (name.size() != 64 || m_needed_bases.contains(name)) continue;
      TRY(remove(entry));
      ++m_result.bases;
    }
    for (const fs::path& entry : entries_of(bases)) {
      if (!entry.filename().string().starts_with("recipe-")) continue;
      std::string digest = base::read_file(entry).value_or("");
      while (digest.ends_with('\n')) digest.pop_back();
      std::error_code ignored;
      if (!fs::exists(bases / digest, ignored)) TRY(remove(entry));
    }
    return {};
  }

  const Store& m_store;
  const PruneOptions& m_options;
  Reporter& m_reporter;
  PruneResult m_result;
  std::set<std::string> m_needed, m_released, m_needed_bases;
};

}  // namespace

Result<PruneResult> prune(const fs::path& store_path, const PruneOptions& options, Reporter& reporter) {
  const Store store = TRY(Store::open(store_path));
  const base::Fd alone = TRY(store.alone(std::chrono::seconds(10)));
  return Pruning(store, options, reporter).run();
}

}  // namespace startrail::image
