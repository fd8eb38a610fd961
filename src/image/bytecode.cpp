// Bytecode: compiled once per wheel and Python, by the base's own interpreter inside the sandbox, where the files lie
// at their final places, so that tracebacks and co_filename are right.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/bytecode_script.hpp"
#include "image/environment_tree.hpp"
#include "image/image_folder.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/system_store.hpp"
#include "image/unsynced.hpp"
#include "image/verify_store.hpp"
#include "image/wheel_tree.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::image {
namespace {

// Sources compiled in one container: enough to make its start cheap, little enough that a kill costs little.
constexpr std::uint64_t k_batch_size = 12U << 20U;

struct Source {
  std::string place;     // below /opt/env
  std::string compiled;  // path in the wheel's bytecode tree
  std::uint64_t size = 0;
};
struct WheelSources {
  std::string sha256, name, version;
  std::vector<Source> sources;
};

// PEP 3147: pkg/module.py → pkg/__pycache__/module.cpython-311.pyc.
std::string compiled_path(std::string_view path, const std::string& tag) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string_view::npos ? "" : std::string(path.substr(0, slash + 1));
  const std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return fmt::format("{}__pycache__/{}.{}.pyc", folder, file.substr(0, file.size() - 3), tag);
}

class Compilation {
 public:
  Compilation(const Store& store, const Image& image, const Manifest& manifest, const machine::Machine& machine,
              Reporter& reporter)
      : m_store(store),
        m_image(image),
        m_is_pulled(is_pulled(store, image.id)),
        m_wheels(m_is_pulled ? std::vector<ManifestWheel>{whole_image()} : manifest.wheels),
        m_machine(machine),
        m_reporter(reporter) {}

  Result<void> run() {
    const std::vector<WheelSources> all = TRY(missing());
    if (!all.empty()) m_support = TRY(sandbox::probe(m_machine));
    std::vector<WheelSources> batch;
    std::uint64_t size = 0;
    for (const WheelSources& wheel : all) {
      batch.push_back(wheel);
      for (const Source& source : wheel.sources) size += source.size;
      if (size < k_batch_size && &wheel != &all.back()) continue;
      TRY(compile(batch));
      batch.clear();
      size = 0;
    }
    return publish_layer();
  }

 private:
  // An image from elsewhere has no wheels whose bytecode others could share, nor may it give them any: its own tree is
  // compiled as one, under its own id.
  [[nodiscard]] ManifestWheel whole_image() const {
    return {.name = "image", .sha256 = m_store.image(m_image.id).filename().string(), .direct_url = {}};
  }

  [[nodiscard]] WheelSources sources_of_tree(const std::string& tag) const {
    WheelSources sources{.sha256 = whole_image().sha256, .name = "image", .version = {}, .sources = {}};
    const fs::path prefix = m_image.layers.front() / k_prefix;
    const fs::path site = prefix / fmt::format("lib/python{}/site-packages", m_image.python);
    // Not through any link that the image may have put there.
    const auto root = Beneath::open(m_image.layers.front());
    if (!root || !root->open_for_reading(site.lexically_relative(m_image.layers.front()).string())) return sources;
    for (const fs::path& file : files_below(site)) {
      struct stat status{};
      if (file.extension() != ".py" || ::lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
      const std::string path = "site/" + file.lexically_relative(site).string();
      sources.sources.push_back({.place = file.lexically_relative(prefix).string(),
                                 .compiled = compiled_path(path, tag),
                                 .size = static_cast<std::uint64_t>(status.st_size)});
    }
    return sources;
  }

  // Wheels of the image that have no bytecode tree yet, with the sources that are theirs in this image.
  Result<std::vector<WheelSources>> missing() {
    std::vector<WheelSources> result;
    const std::string tag = cache_tag(m_image.python);
    for (const ManifestWheel& wheel : m_wheels) {
      std::error_code ignored;
      if (fs::exists(m_store.bytecode(wheel.sha256, tag) / "meta.json", ignored)) continue;
      if (m_is_pulled) {
        result.push_back(sources_of_tree(tag));
        continue;
      }
      const WheelTree tree = TRY(read_wheel_tree(m_store.wheel(wheel.sha256)));
      WheelSources sources{.sha256 = wheel.sha256, .name = tree.name, .version = tree.version, .sources = {}};
      for (const TreeFile& file : tree.files) {
        if (!file.path.starts_with("site/") || !file.path.ends_with(".py")) continue;
        const std::string place = environment_path(file.path, m_image.python, tree.name);
        if (!is_in_tree(place, m_store.wheel(wheel.sha256), file)) continue;  // lost a collision
        sources.sources.push_back({.place = place, .compiled = compiled_path(file.path, tag), .size = file.size});
      }
      result.push_back(std::move(sources));
    }
    return result;
  }

  // A hard link of the wheel's file; where links can't be had, a copy of it.
  bool is_in_tree(const std::string& place, const fs::path& wheel, const TreeFile& file) const {
    const fs::path path = m_image.layers.front() / k_prefix / place;
    struct stat here{}, there{};
    if (::lstat(path.c_str(), &here) != 0 || ::lstat((wheel / file.path).c_str(), &there) != 0) return false;
    if (here.st_dev == there.st_dev && here.st_ino == there.st_ino) return true;
    if (!S_ISREG(here.st_mode) || here.st_size != there.st_size) return false;
    const auto digest = base::sha256_file_hex(path);
    return digest && *digest == base::to_hex(file.digest);
  }

  Result<void> compile(const std::vector<WheelSources>& wheels) {
    const std::string key = "bytecode-work-" + m_store.image(m_image.id).filename().string();
    const base::FileLock lock = TRY(m_store.lock(key));
    const fs::path work = m_store.staging(key);
    for (const char* folder : {"in", "out", "scratch"}) TRY(base::make_directories(work / folder));
    auto outcome = run_compiler(wheels, work);
    for (const WheelSources& wheel : wheels)
      if (outcome) outcome = keep(wheel, work / "out" / wheel.sha256);
    TRY(base::remove_tree(work));
    return outcome;
  }

  Result<void> run_compiler(const std::vector<WheelSources>& wheels, const fs::path& work) {
    Json files = Json::array();
    for (const WheelSources& wheel : wheels)
      for (const Source& source : wheel.sources)
        files.push_back({fmt::format("/{}/{}", k_prefix, source.place),
                         fmt::format("/mnt/temp/{}/{}", wheel.sha256, source.compiled)});
    if (files.empty()) return {};
    m_reporter.progress({.what = "compiling bytecode",
                         .done = 0,
                         .total = files.size(),
                         .unit = base::Unit::items,
                         .detail = wheels.front().name});
    TRY(base::write_file_atomic(work / "in" / "compile.py", k_bytecode_script));
    TRY(base::write_file_atomic(work / "in" / "files.json", base::to_compact_text(files)));
    sandbox::ContainerSpec spec{
        .id = fmt::format("trail-bytecode-{}", ::getpid()), .layers = m_image.layers, .scratch = work / "scratch"};
    // Isolated and without site: a wheel's .pth files must not run here.
    spec.argv = {"/usr/bin/python" + m_image.python,
                 "-I",
                 "-S",
                 "-B",
                 "/mnt/datasets/compile.py",
                 "/mnt/datasets/files.json",
                 std::to_string(std::max(1, m_machine.cpus))};
    spec.environment = m_image.environment;
    spec.mounts = {{.source = work / "in", .target = "/mnt/datasets", .access = sandbox::Access::read_only},
                   {.source = work / "out",
                    .target = "/mnt/temp",
                    .access = sandbox::Access::read_write,
                    .ownership = sandbox::Ownership::caller}};
    spec.network = sandbox::Network::none;
    spec.scratch_after = sandbox::Scratch::discarded;
    spec.owner_reference = work / "out";
    const auto ended = TRY_CONTEXT(sandbox::run_contained(m_support, spec), "while compiling bytecode");
    if (ended.succeeded()) return {};
    Error reason = base::error(ErrorCode::internal, "the bytecode compiler failed");
    reason.detail = ended.errors + ended.output;
    return base::fail(std::move(reason));
  }

  // What was compiled becomes the wheel's bytecode tree. Sources that don't compile (templates, Python 2) have none.
  Result<void> keep(const WheelSources& wheel, const fs::path& output) {
    const std::string tag = cache_tag(m_image.python);
    const std::string key = fmt::format("bytecode-{}-{}", wheel.sha256, tag);
    const base::FileLock lock = TRY(m_store.lock(key));
    const fs::path staging = m_store.staging(key);
    TRY(base::make_directories(staging));
    const Beneath root = TRY(Beneath::open(staging));
    WheelTree tree{
        .sha256 = wheel.sha256, .filename = {}, .name = wheel.name, .version = wheel.version, .dist_info = {}};
    for (const Source& source : wheel.sources) {
      const auto content = base::read_file(output / source.compiled);
      if (!content) continue;
      base::Sha256 hash;
      hash.update(*content);
      TreeFile file{.path = source.compiled, .size = content->size(), .digest = hash.finish()};
      TRY(root.make_folder(source.compiled.substr(0, source.compiled.rfind('/'))));
      TRY(root.write(source.compiled, *content, 0444));
      tree.size += file.size;
      tree.files.push_back(std::move(file));
    }
    TRY(root.write("meta.json", base::to_compact_text(to_json(tree)), 0444));
    return m_store.publish(key, m_store.bytecode(wheel.sha256, tag));
  }

  // All of it, linked into one layer that appears at once; the next run takes it.
  Result<void> publish_layer() {
    const std::string key = "bytecode-layer-" + m_store.image(m_image.id).filename().string();
    const fs::path staging = m_store.staging(key);
    TRY(base::make_directories(staging / k_prefix));
    const Beneath root = TRY(Beneath::open(staging / k_prefix));
    const std::string tag = cache_tag(m_image.python);
    for (const ManifestWheel& wheel : m_wheels) {
      const fs::path folder = m_store.bytecode(wheel.sha256, tag);
      const WheelTree tree = TRY(read_wheel_tree(folder));
      const base::Fd source = TRY(base::open_file(folder, O_RDONLY | O_DIRECTORY));
      for (const TreeFile& file : tree.files) {
        const std::string place = environment_path(file.path, m_image.python, tree.name);
        TRY(root.make_folder(place.substr(0, place.rfind('/'))));
        auto linked = link_or_copy(source.get(), file.path, root.descriptor(), place);
        if (!linked && linked.error().code != ErrorCode::conflict) return linked;
      }
    }
    return m_store.publish(key, m_store.image(m_image.id) / "bytecode");
  }

  const Store& m_store;
  const Image& m_image;
  const bool m_is_pulled;
  const std::vector<ManifestWheel> m_wheels;
  const machine::Machine& m_machine;
  Reporter& m_reporter;
  sandbox::Support m_support;
};

}  // namespace

bool wants_background_work(const Image& image, const fs::path& store) {
  return (!image.has_bytecode && !image.python.empty()) || is_unsynced(Store::at(store));
}

Result<void> compile_bytecode(const Image& image, const fs::path& store_path, const machine::Machine& machine,
                              Reporter& reporter) {
  const Store store = TRY(Store::open(store_path));
  const base::Fd in_use = TRY(store.use());
  const Manifest manifest = TRY(read_manifest(store, image.id));
  if (manifest.is_foreign()) return sync_store(store);
  // Editables' code lies in the workspace; the layer belongs to the image below.
  if (!manifest.parent.empty() && !is_pulled(store, image.id)) {
    const Image below = TRY(open(store_path, manifest.parent));
    return compile_bytecode(below, store_path, machine, reporter);
  }
  const Image present = TRY(image_from_manifest(store, image.id, manifest));
  // Of an image that stands on the system store's the owner of that compiles, once for all.
  if (present.has_bytecode || shared_image(store, image.id)) return sync_store(store);
  const std::string key = "bytecode-layer-" + store.image(image.id).filename().string();
  const auto lock = TRY(store.try_lock(key));
  if (!lock) return {};  // somebody else is at it
  auto outcome = Compilation(store, present, manifest, machine, reporter).run();
  TRY(sync_store(store));
  return outcome;
}

}  // namespace startrail::image
