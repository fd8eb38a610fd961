// Comparing the store with what it should hold: every file of every wheel, every link of every image, every name.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include <sys/stat.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "image/environment_tree.hpp"
#include "image/image_folder.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {
namespace {

struct Expected {
  base::Sha256Digest digest;
  std::uint64_t size;
};

// A file's own number on its filesystem: equal for hard links.
std::optional<std::pair<dev_t, ino_t>> identity(const fs::path& file) {
  struct stat status{};
  if (::lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

std::vector<fs::path> files_below(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(root, failed), end; !failed && at != end; at.increment(failed))
    if (!at->is_directory(failed) || at->is_symlink(failed)) files.push_back(at->path());
  return files;
}

class Verification {
 public:
  Verification(const Store& store, Reporter& reporter) : m_store(store), m_reporter(reporter) {}

  Result<std::vector<StoreFault>> run() {
    m_reporter.step("checking the store");
    check_wheels("wheels");
    check_wheels("bytecode");
    for (const std::string& id : image_ids(m_store)) check_image(id);
    std::ranges::sort(m_faults, {}, &StoreFault::path);
    return std::move(m_faults);
  }

 private:
  void fault(std::string what, const fs::path& path) {
    const std::scoped_lock lock(m_mutex);
    m_faults.push_back({.what = std::move(what), .path = path});
  }

  // Trees side by side: hashing is what takes the time.
  void check_wheels(const char* folder) {
    std::vector<fs::path> trees;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(m_store.folder(folder), ignored)) trees.push_back(entry.path());
    std::atomic<std::size_t> next{0}, done{0};
    const auto work = [&] {
      for (std::size_t index = next++; index < trees.size(); index = next++) {
        check_tree(trees[index]);
        m_reporter.progress({.what = fmt::format("checking {}", folder),
                             .done = ++done,
                             .total = trees.size(),
                             .unit = base::Unit::items,
                             .detail = {}});
      }
    };
    std::vector<std::jthread> threads;
    for (unsigned count = 1; count < std::thread::hardware_concurrency(); ++count) threads.emplace_back(work);
    work();
  }

  void check_tree(const fs::path& root) {
    const auto tree = read_wheel_tree(root);
    if (!tree) return fault(fmt::format("{}: its meta.json is missing or damaged", root.filename().string()), root);
    const std::string name = fmt::format("wheel {}-{}", tree->name, tree->version);
    if (root.filename().string().substr(0, 64) != tree->sha256)
      return fault(fmt::format("{}: its folder has another wheel's name", name), root);
    std::unordered_set<std::string> known{(root / "meta.json").string()};
    for (const TreeFile& file : tree->files) {
      const fs::path path = root / file.path;
      known.insert(path.string());
      check_file(name, file, path);
    }
    for (const fs::path& path : files_below(root))
      if (!known.contains(path.string()))
        fault(fmt::format("{}: {} does not belong to it", name, path.lexically_relative(root).string()), path);
  }

  void check_file(const std::string& name, const TreeFile& file, const fs::path& path) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) return fault(fmt::format("{}: {} is missing", name, file.path), path);
    const auto digest = S_ISREG(status.st_mode) ? base::sha256_file_hex(path) : Result<std::string>("");
    if (!digest || *digest != base::to_hex(file.digest))
      return fault(fmt::format("{}: {} differs from RECORD", name, file.path), path);
    if ((status.st_mode & 0777) != (file.executable ? 0555 : 0444))
      fault(fmt::format("{}: {} has the mode {:o}", name, file.path, status.st_mode & 0777), path);
  }

  void check_image(const std::string& id) {
    const fs::path folder = m_store.image(id);
    const std::string name = "image " + id.substr(0, 12);
    const auto manifest = read_manifest(m_store, id);
    if (!manifest) return fault(fmt::format("{}: {}", name, manifest.error().message), folder / "manifest.json");
    if (!manifest->parent.empty() && !read_manifest(m_store, manifest->parent))
      fault(fmt::format("{}: the image it stands on is missing", name), m_store.image(manifest->parent));
    std::error_code ignored;
    if (!fs::exists(m_store.folder("bases") / manifest->base_digest / "root", ignored))
      fault(fmt::format("{}: its base is missing", name), m_store.folder("bases") / manifest->base_digest);
    check_links(name, folder / "tree" / k_prefix, *manifest);
  }

  // Every place of the tree is a link to some wheel of the image that brings a file for it.
  void check_links(const std::string& name, const fs::path& prefix, const Manifest& manifest) {
    std::unordered_map<std::string, std::vector<std::pair<fs::path, base::Sha256Digest>>> places;
    for (const ManifestWheel& wheel : manifest.wheels) {
      const fs::path root = m_store.wheel(wheel.sha256);
      const auto tree = read_wheel_tree(root);
      if (!tree) {
        fault(fmt::format("{}: the wheel of {} is missing", name, wheel.name), root);
        continue;
      }
      const std::string own = "site/" + tree->dist_info + "/RECORD";
      const bool own_record = tree->has_headers() || !wheel.direct_url.empty();
      for (const TreeFile& file : tree->files)
        if (!(own_record && file.path == own))
          places[environment_path(file.path, manifest.python, tree->name)].emplace_back(root / file.path, file.digest);
    }
    for (const auto& [place, candidates] : places) check_link(name, prefix / place, place, candidates);
  }

  void check_link(const std::string& name, const fs::path& path, const std::string& place,
                  const std::vector<std::pair<fs::path, base::Sha256Digest>>& candidates) {
    const auto found = identity(path);
    if (!found) return fault(fmt::format("{}: {} is missing", name, place), path);
    for (const auto& [file, digest] : candidates)
      if (identity(file) == found) return;
    // Where links were refused the tree holds copies.
    const auto digest = base::sha256_file_hex(path);
    for (const auto& [file, expected] : candidates)
      if (digest && *digest == base::to_hex(expected)) return;
    fault(fmt::format("{}: {} is not what its package brings", name, place), path);
  }

  const Store& m_store;
  Reporter& m_reporter;
  std::mutex m_mutex;
  std::vector<StoreFault> m_faults;
};

}  // namespace

Result<std::vector<StoreFault>> verify_store(const fs::path& store_path, Reporter& reporter) {
  const Store store = TRY(Store::open(store_path));
  const base::Fd in_use = TRY(store.use());
  return Verification(store, reporter).run();
}

}  // namespace startrail::image
