// Comparing the store with what it should hold: every file of every wheel, every link of every image, every name.
#include "image/verify_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <unordered_set>

#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/base_system.hpp"
#include "image/image_folder.hpp"
#include "image/oci/layer_contents.hpp"
#include "image/verify_image.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {
namespace {

using Kind = StoreFault::Kind;

class Verification {
 public:
  Verification(const Store& store, Reporter& reporter) : m_store(store), m_reporter(reporter) {}

  Result<std::vector<StoreFault>> run() {
    m_reporter.step("checking the store");
    check_trees("wheels");
    check_trees("bytecode");
    check_layers();
    check_bases();
    for (const std::string& id : image_ids(m_store)) check_image(m_store, id, m_faults);
    check_leftovers();
    return m_faults.take();
  }

 private:
  void check_trees(const char* folder) {
    const std::vector<fs::path> trees = entries_of(m_store.folder(folder));
    side_by_side(folder, trees.size(), [&](std::size_t index) { check_tree(trees[index]); });
  }

  // Hashing is what takes the time.
  void side_by_side(std::string_view what, std::size_t count, const std::function<void(std::size_t)>& check) {
    std::atomic<std::size_t> next{0}, done{0};
    const auto work = [&] {
      for (std::size_t index = next++; index < count; index = next++) {
        check(index);
        m_reporter.progress({.what = fmt::format("checking {}", what),
                             .done = ++done,
                             .total = count,
                             .unit = base::Unit::items,
                             .detail = {}});
      }
    };
    std::vector<std::jthread> threads;
    for (unsigned others = 1; others < std::thread::hardware_concurrency(); ++others) threads.emplace_back(work);
    work();
  }

  void check_layers() {
    for (const fs::path& root : entries_of(m_store.folder("layers"))) {
      const std::string diff_id = root.filename().string().substr(0, 64);
      const std::string name = "layer " + diff_id.substr(0, 12);
      const auto contents = read_contents(m_store, diff_id);
      if (!contents) {
        m_faults.add({.what = name + ": its contents.json is missing or damaged", .path = root, .owner = root});
        continue;
      }
      std::vector<const LayerEntry*> files;
      std::unordered_set<std::string> known{(root / "contents.json").string()};
      for (const LayerEntry& entry : contents->entries) {
        if (entry.kind != LayerEntry::Kind::file) continue;
        files.push_back(&entry);
        known.insert(layer_file(m_store, diff_id, entry.number).string());
      }
      side_by_side(name, files.size(), [&](std::size_t index) { check_layer_file(name, root, *files[index]); });
      for (const fs::path& path : files_below(root))
        if (!known.contains(path.string()))
          m_faults.add({.kind = Kind::stranger,
                        .what = fmt::format("{}: {} does not belong to it", name, path.filename().string()),
                        .path = path,
                        .owner = root});
    }
  }

  void check_layer_file(const std::string& name, const fs::path& root, const LayerEntry& entry) {
    const fs::path path = root / "files" / std::to_string(entry.number);
    struct stat status{};
    const bool is_file = ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
    const auto digest = is_file ? base::sha256_file_hex(path) : Result<std::string>("");
    if (!digest || *digest != entry.digest)
      return m_faults.add(
          {.what = fmt::format("{}: {} {}", name, entry.path, is_file ? "differs from what came" : "is missing"),
           .path = path,
           .owner = root});
    if ((status.st_mode & 07777U) != entry.mode)
      m_faults.add({.kind = Kind::mode,
                    .what = fmt::format("{}: {} has the mode {:o}", name, entry.path, status.st_mode & 07777U),
                    .path = path,
                    .owner = root,
                    .right_mode = entry.mode});
  }

  void check_tree(const fs::path& root) {
    const auto tree = read_wheel_tree(root);
    if (!tree) {
      const std::string what = fmt::format("{}: its meta.json is missing or damaged", root.filename().string());
      return m_faults.add({.what = what, .path = root, .owner = root});
    }
    const std::string name = fmt::format("wheel {}-{}", tree->name, tree->version);
    if (root.filename().string().substr(0, 64) != tree->sha256)
      return m_faults.add({.what = name + ": its folder has another wheel's name", .path = root, .owner = root});
    std::unordered_set<std::string> known{(root / "meta.json").string()};
    for (const TreeFile& file : tree->files) {
      const fs::path path = root / file.path;
      known.insert(path.string());
      check_file(name, root, file);
    }
    for (const fs::path& path : files_below(root))
      if (!known.contains(path.string()))
        m_faults.add({.kind = Kind::stranger,
                      .what = fmt::format("{}: {} does not belong to it", name, path.lexically_relative(root).string()),
                      .path = path,
                      .owner = root});
  }

  void check_file(const std::string& name, const fs::path& root, const TreeFile& file) {
    const fs::path path = root / file.path;
    const auto damaged = [&](std::string_view how) {
      m_faults.add({.what = fmt::format("{}: {} {}", name, file.path, how), .path = path, .owner = root});
    };
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) return damaged("is missing");
    const auto digest = S_ISREG(status.st_mode) ? base::sha256_file_hex(path) : Result<std::string>("");
    if (!digest || *digest != base::to_hex(file.digest)) return damaged("differs from RECORD");
    const unsigned right = file.executable ? 0555 : 0444;
    if ((status.st_mode & 07777U) != right)
      m_faults.add({.kind = Kind::mode,
                    .what = fmt::format("{}: {} has the mode {:o}", name, file.path, status.st_mode & 07777U),
                    .path = path,
                    .owner = root,
                    .right_mode = right});
  }

  void check_bases() {
    for (const fs::path& folder : entries_of(m_store.folder("bases"))) {
      const std::string digest = folder.filename().string();
      if (digest.size() != 64) continue;  // recipes, locks, logs
      const auto damaged = [&](std::string_view how) {
        m_faults.add({.what = fmt::format("base {}: {}", digest.substr(0, 12), how), .path = folder, .owner = folder});
      };
      m_reporter.progress({.what = "checking bases",
                           .done = 0,
                           .total = {},
                           .unit = base::Unit::items,
                           .detail = digest.substr(0, 12)});
      const auto meta = base::read_json_file(folder / "meta.json");
      if (!meta || base::string_at(*meta, "digest") != digest) {
        damaged("its meta.json is missing or damaged");
        continue;
      }
      const auto found = digest_tree(folder / "root");
      if (!found) damaged(found.error().message);
      if (found && found->sha256 != digest) damaged("its files are not those that it was made with");
    }
  }

  void check_leftovers() {
    for (const fs::path& path : m_store.stale_staging())
      m_faults.add({.kind = Kind::leftover,
                    .what = fmt::format("{} was left by a build that ended early", path.filename().string()),
                    .path = path,
                    .owner = path});
    for (const fs::path& path : entries_of(m_store.folder("bases"))) {
      const std::string name = path.filename().string();
      if (!name.starts_with("staging-") || is_locked(path.parent_path() / ("lock-" + name.substr(8)))) continue;
      m_faults.add({.kind = Kind::leftover,
                    .what = fmt::format("bases/{} was left by a build that ended early", name),
                    .path = path,
                    .owner = path});
    }
    for (const fs::path& path : entries_of(m_store.folder("downloads"))) {
      const std::string name = path.filename().string();
      if (name.size() < 64 || !m_store.has_wheel(name.substr(0, 64))) continue;
      m_faults.add({.kind = Kind::leftover,
                    .what = fmt::format("the download {} is of a wheel that is here already", name),
                    .path = path,
                    .owner = path});
    }
  }

  const Store& m_store;
  Reporter& m_reporter;
  Faults m_faults;
};

}  // namespace

void Faults::add(StoreFault fault) {
  const std::scoped_lock lock(m_mutex);
  m_faults.push_back(std::move(fault));
}

std::vector<StoreFault> Faults::take() {
  std::ranges::sort(m_faults, {}, &StoreFault::path);
  return std::move(m_faults);
}

std::vector<fs::path> files_below(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(root, failed), end; !failed && at != end; at.increment(failed))
    if (!at->is_directory(failed) || at->is_symlink(failed)) files.push_back(at->path());
  return files;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) entries.push_back(entry.path());
  return entries;
}

Result<std::vector<StoreFault>> find_faults(const Store& store, Reporter& reporter) {
  return Verification(store, reporter).run();
}

Result<std::vector<StoreFault>> verify_store(const fs::path& store_path, Reporter& reporter) {
  const Store store = TRY(Store::open(store_path));
  const base::Fd in_use = TRY(store.use());
  return find_faults(store, reporter);
}

}  // namespace startrail::image
