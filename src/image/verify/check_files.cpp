#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/hash.hpp"
#include "image/base_system.hpp"
#include "image/image_folder.hpp"
#include "image/oci/layer_contents.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/verify/levels.hpp"
#include "image/verify_image.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {
namespace {

struct ExpectedFile {
  fs::path path;
  std::string shown;   // "torch 2.6.0: site/torch/__init__.py"
  std::string digest;  // SHA-256 in hex
  std::uint64_t size = 0;
};

class FileCheck {
 public:
  FileCheck(const Store& store, const std::string& id, Reporter& reporter)
      : m_store(store), m_id(store.image(id).filename().string()), m_reporter(reporter) {}

  LevelResult run() {
    LevelResult result{.level = Level::files, .outcome = Outcome::passed};
    collect(m_id);
    hash_all();
    check_base();
    check_image(m_store, m_id, m_faults);
    for (StoreFault& fault : m_faults.take()) result.findings.push_back(std::move(fault.what));
    if (!result.findings.empty()) result.outcome = Outcome::failed;
    result.summary =
        result.findings.empty()
            ? fmt::format("{} files, {}, are what they were made as", m_files.size(), to_text(m_size))
            : fmt::format("{} of {} files are not what they were made as", result.findings.size(), m_files.size());
    result.figures = Json{{"files", m_files.size()}, {"bytes", m_size.count}};
    return result;
  }

 private:
  void fault(std::string what) { m_faults.add({.what = std::move(what), .path = m_store.image(m_id), .owner = {}}); }

  void collect(const std::string& id) {
    const auto manifest = read_manifest(m_store, id);
    if (!manifest) return;  // check_image tells it
    m_base_digest = manifest->base_digest;
    if (is_pulled(m_store, id)) {
      for (const std::string& diff_id : pulled_layers(m_store, id)) collect_layer(diff_id);
      return;
    }
    for (const ManifestWheel& wheel : manifest->wheels) collect_wheel(wheel);
    if (!manifest->parent.empty()) collect(manifest->parent);
  }

  void collect_wheel(const ManifestWheel& wheel) {
    const fs::path root = m_store.wheel(wheel.sha256);
    const auto tree = read_wheel_tree(root);
    if (!tree) return fault(fmt::format("{}: its wheel's tree is missing or damaged", wheel.name));
    for (const TreeFile& file : tree->files)
      m_files.push_back({.path = root / file.path,
                         .shown = fmt::format("{} {}: {}", tree->name, tree->version, file.path),
                         .digest = base::to_hex(file.digest),
                         .size = file.size});
  }

  void collect_layer(const std::string& diff_id) {
    const auto contents = read_contents(m_store, diff_id);
    if (!contents) return fault(fmt::format("layer {}: its contents are missing or damaged", diff_id.substr(0, 19)));
    for (const LayerEntry& entry : contents->entries)
      if (entry.kind == LayerEntry::Kind::file)
        m_files.push_back({.path = layer_file(m_store, diff_id, entry.number),
                           .shown = fmt::format("layer {}: {}", diff_id.substr(0, 19), entry.path),
                           .digest = entry.digest,
                           .size = entry.size});
  }

  // The largest first, so that no core is left alone with one of them at the end.
  void hash_all() {
    std::ranges::sort(m_files, std::greater<>(), &ExpectedFile::size);
    for (const ExpectedFile& file : m_files) m_size += Bytes{file.size};
    std::atomic<std::size_t> next{0};
    std::atomic<std::uint64_t> done{0};
    const auto work = [&] {
      for (std::size_t index = next++; index < m_files.size(); index = next++) {
        check(m_files[index]);
        done += m_files[index].size;
        m_reporter.progress({.what = "checking files", .done = done, .total = m_size.count, .detail = {}});
      }
    };
    std::vector<std::jthread> threads;
    for (unsigned others = 1; others < std::thread::hardware_concurrency(); ++others) threads.emplace_back(work);
    work();
  }

  void check(const ExpectedFile& file) {
    struct stat status{};
    if (::lstat(file.path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return fault(file.shown + " is missing");
    const auto digest = base::sha256_file_hex(file.path);
    if (!digest || *digest != file.digest) fault(file.shown + " differs from what it was made as");
  }

  void check_base() {
    if (m_base_digest.empty()) return;
    const auto found = digest_tree(m_store.base(m_base_digest) / "root");
    if (!found)
      fault(fmt::format("the base: {}", found.error().message));
    else if (found->sha256 != m_base_digest)
      fault("the base's files are not those that it was made with");
    else
      m_size += found->size;
  }

  const Store& m_store;
  const std::string m_id;
  Reporter& m_reporter;
  std::vector<ExpectedFile> m_files;
  std::string m_base_digest;
  Bytes m_size;
  Faults m_faults;
};

}  // namespace

LevelResult check_files(const Store& store, const Image& image, Reporter& reporter) {
  return FileCheck(store, image.id, reporter).run();
}

}  // namespace startrail::image
