// From a lock to an image: the base beside the wheels, everything linked into one tree, one rename.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/base_beside.hpp"
#include "image/base_system.hpp"
#include "image/environment_tree.hpp"
#include "image/image_folder.hpp"
#include "image/lock_contents.hpp"
#include "image/making.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/system_store.hpp"
#include "image/unsynced.hpp"
#include "lock/suite.hpp"

namespace startrail::image {
namespace {

// Room that the file system needs for itself when it is filled to the brim.
constexpr Bytes k_reserve{64U << 20U};

// Of what unpacks wheels while a base is made: that is one long chain of steps, wheels use any core that is left.
constexpr int k_behind_the_base = 15;

Error with_ways_out(Error reason, const EnsureOptions& options) {
  return std::move(reason)
      .with_context("the store is " + options.store.string())
      .with_hint("`trail image prune --unused 30d` removes images that are not used")
      .with_hint("or set STARTRAIL_HOME to a folder on a larger disk");
}

// The disk filled up while the image was made: what is in the store stays, so only the rest is needed.
Error with_need(Error reason, const lock::Lock& lock, const EnsureOptions& options) {
  if (reason.code != ErrorCode::no_space) return reason;
  if (const auto rest = plan(lock, options.store, options.lock_directory))
    reason.with_context(fmt::format("what is left of this image needs {}; {} are free", to_text(rest->disk_needed),
                                    to_text(rest->disk_free)));
  return with_ways_out(std::move(reason), options);
}

Result<void> check_space(const lock::Lock& lock, const EnsureOptions& options) {
  const Plan cost = TRY(plan(lock, options.store, options.lock_directory));
  const bool nothing_to_do = cost.wheels_missing == 0 && !cost.base_missing;
  if (nothing_to_do || cost.disk_needed + k_reserve <= cost.disk_free) return {};
  return base::fail(
      with_ways_out(base::error(ErrorCode::no_space, fmt::format("this image needs {} of disk; {} are free",
                                                                 to_text(cost.disk_needed), to_text(cost.disk_free))),
                    options));
}

struct Made {
  std::vector<Collision> collisions;
  std::uint64_t size = 0;
  std::vector<WheelTree> trees;
};

class Making {
 public:
  Making(const Suppliers& suppliers, const lock::Lock& lock, const machine::Machine& machine,
         const EnsureOptions& options, Reporter& reporter, const Store& store)
      : m_suppliers(suppliers),
        m_lock(lock),
        m_machine(machine),
        m_options(options),
        m_reporter(reporter),
        m_store(store) {}

  Result<Image> run() {
    m_suite = TRY(suite_of(m_lock));
    const BaseRecipe recipe = base_recipe(m_suite, m_lock.system_packages);
    m_contents = TRY(lock_contents(m_lock, m_options.lock_directory, m_store));
    if (auto base = known_base(recipe.digest))
      if (auto found = TRY(find(*base))) return std::move(*found);
    TRY(check_space(m_lock, m_options));
    BaseBeside base(m_suppliers, m_options.store, recipe, m_reporter);
    TRY(make_main(base));
    const BaseSystem made = TRY(base.get());
    if (!m_contents.editables.empty()) TRY(make_derived(made));
    if (!m_lock.base_digest.empty() && m_lock.base_digest != made.digest)
      m_reporter.note("the base system has other package versions than the one this lock was made with");
    auto image = TRY(find(made));
    if (image) return std::move(*image);
    return base::fail(ErrorCode::internal, "the image that was just made is not there");
  }

 private:
  // Made here by this recipe; else the very base that the lock names, wherever it came from: its name is its content.
  [[nodiscard]] std::optional<BaseSystem> known_base(const std::string& recipe) const {
    auto base = m_suppliers.find_base(m_options.store, recipe);
    if (base || m_lock.base_digest.empty()) return base;
    return find_base_by_digest(m_options.store, recipe, m_lock.base_digest);
  }

  // ---- names ----
  [[nodiscard]] Manifest main_manifest(const BaseSystem& base) const {
    return image::main_manifest(m_lock, m_contents, base.recipe, base.digest);
  }

  [[nodiscard]] Manifest derived_manifest(const BaseSystem& base) const {
    Manifest manifest = main_manifest(base);
    manifest.parent = manifest_id(manifest);
    manifest.wheels.clear();
    for (const LockedBuild& build : m_contents.editables)
      manifest.wheels.push_back({build.package.name, build.sha256, build.direct_url});
    std::ranges::sort(manifest.wheels, {}, &ManifestWheel::name);
    return manifest;
  }

  // The image, if everything that names it is known and it is there.
  Result<std::optional<Image>> find(const BaseSystem& base) const {
    const auto unbuilt = [](const LockedBuild& build) { return build.sha256.empty(); };
    if (std::ranges::any_of(m_contents.builds, unbuilt) || std::ranges::any_of(m_contents.editables, unbuilt))
      return std::nullopt;
    const Manifest manifest = m_contents.editables.empty() ? main_manifest(base) : derived_manifest(base);
    const std::string id = manifest_id(manifest);
    if (!has_folder(id)) return std::nullopt;
    const bool pulled = is_pulled(m_store, id);
    const bool on_parent = !manifest.parent.empty() && !pulled;
    if (on_parent && !is_whole(manifest.parent)) return std::nullopt;
    if (!check_standing(m_store, id)) return std::nullopt;
    touch_image(m_store, id);
    if (on_parent) touch_image(m_store, manifest.parent);
    if (pulled) m_reporter.note(fmt::format("this image was not made here: it came from {}", origin_of(m_store, id)));
    return TRY(image_from_manifest(m_store, id, manifest));
  }

  // ---- the image itself ----
  Result<void> make_main(BaseBeside& base) {
    const std::string key = "image-" + lock_key(m_contents.builds);
    if (is_there()) return {};
    const base::FileLock lock = TRY(wait_for(key));
    // Whoever held the lock before may have made it.
    m_contents = TRY(lock_contents(m_lock, m_options.lock_directory, m_store));
    if (is_there()) return {};
    if (TRY(share(key))) return {};
    m_reporter.step("making the image");
    return or_nothing(key, fill_main(key, base));
  }

  Result<void> fill_main(const std::string& key, BaseBeside& base) {
    const auto tree = TRY(EnvironmentTree::create(m_store.staging(key) / "tree", m_lock.python));
    Made made;
    TRY(install(*tree, made, base.is_being_made() ? k_behind_the_base : 0));
    const BaseSystem system = TRY(base.get());
    TRY(build(key, m_contents.builds, system, *tree, made));
    return publish(key, main_manifest(system), *tree, made, system);
  }

  // Small and of its own, so that the image below is shared by every project with the same lock.
  Result<void> make_derived(const BaseSystem& base) {
    const std::string key = "image-" + lock_key(m_contents.editables);
    const base::FileLock lock = TRY(wait_for(key));
    m_contents = TRY(lock_contents(m_lock, m_options.lock_directory, m_store));
    if (TRY(find(base))) return {};
    return or_nothing(key, fill_derived(key, base));
  }

  Result<void> fill_derived(const std::string& key, const BaseSystem& base) {
    const auto tree = TRY(EnvironmentTree::create(m_store.staging(key) / "tree", m_lock.python));
    Made made;
    TRY(build(key, m_contents.editables, base, *tree, made));
    return publish(key, derived_manifest(base), *tree, made, base);
  }

  // Nothing half-made stays behind a failure.
  Result<void> or_nothing(const std::string& key, Result<void> made) const {
    if (made) return made;
    (void)base::remove_tree(m_store.staging(key));
    return base::fail(with_need(std::move(made).error(), m_lock, m_options));
  }

  // Of the image without editables, once everything that names it is known.
  [[nodiscard]] std::optional<std::string> main_id() const {
    const auto base = m_suppliers.find_base(m_options.store, base_recipe(m_suite, m_lock.system_packages).digest);
    if (!base || std::ranges::any_of(m_contents.builds, [](const auto& build) { return build.sha256.empty(); }))
      return std::nullopt;
    return manifest_id(main_manifest(*base));
  }

  [[nodiscard]] bool is_there() const {
    const auto id = main_id();
    return id && is_whole(*id);
  }

  [[nodiscard]] bool has_folder(const std::string& id) const {
    std::error_code ignored;
    return fs::exists(m_store.image(id) / "manifest.json", ignored);
  }

  // With all that it stands on.
  [[nodiscard]] bool is_whole(const std::string& id) const {
    return has_folder(id) && check_standing(m_store, id).has_value();
  }

  // One whose image in the system store is gone, or can't be trusted any more, makes room for another.
  Result<void> drop_fallen(const std::string& id) {
    if (!has_folder(id)) return {};
    const auto standing = check_standing(m_store, id);
    if (standing) return {};
    m_reporter.warn(
        fmt::format("this image stood on the system store's, which is no longer used: {}", standing.error().message));
    return m_store.discard(m_store.image(id));
  }

  // The system store has this very image.
  Result<bool> share(const std::string& key) {
    if (const auto refusal = system_store_refusal()) m_reporter.warn(*refusal);
    const auto id = main_id();
    if (!id) return false;
    TRY(drop_fallen(*id));
    const Sharing sharing = TRY(share_image(m_store, key, *id));
    if (!sharing.refusal.empty())
      m_reporter.warn(fmt::format("the system store's image is not used: {}", sharing.refusal));
    if (!sharing.done) return false;
    m_reporter.note(fmt::format("this image is the one of the system store {}", m_store.system().string()));
    return true;
  }

  Result<base::FileLock> wait_for(const std::string& key) {
    if (auto lock = TRY(m_store.try_lock(key))) return std::move(*lock);
    m_reporter.step("waiting for another build of this image");
    return m_store.lock(key);
  }

  // Known before anything is built: builders of the same thing must meet at one lock.
  [[nodiscard]] std::string lock_key(const std::vector<LockedBuild>& builds) const {
    std::string text = lock::digest(m_lock);
    for (const LockedBuild& build : builds) text += "\n" + build.key;
    for (const LockedWheel& wheel : m_contents.wheels) text += "\n" + wheel.direct_url;
    return base::sha256_hex(text);
  }

  Result<void> install(EnvironmentTree& tree, Made& made, int niceness) {
    std::vector<WheelSource> sources;
    std::unordered_map<std::string, std::string> direct_urls;
    for (const LockedWheel& wheel : m_contents.wheels) {
      sources.push_back(wheel.source);
      direct_urls.emplace(wheel.source.sha256, wheel.direct_url);
    }
    return add(std::move(sources), direct_urls, tree, made, niceness);
  }

  Result<void> add(std::vector<WheelSource> sources, const std::unordered_map<std::string, std::string>& direct_urls,
                   EnvironmentTree& tree, Made& made, int niceness = 0) {
    std::mutex mutex;
    PipelineOptions options{
        .workers = m_machine.cpus, .transfers = m_suppliers.transfers, .niceness = niceness, .on_tree = {}};
    options.on_tree = [&](const WheelSource& source, const WheelTree& wheel, const fs::path& folder) -> Result<void> {
      TRY(tree.add(wheel, folder, {.direct_url = direct_urls.at(source.sha256)}));
      const std::scoped_lock lock(mutex);
      made.trees.push_back(wheel);
      made.trees.back().files.clear();  // only what is told about a package is needed from here on
      return {};
    };
    return install_wheels(m_store, std::move(sources), options, m_reporter);
  }

  Result<void> build(const std::string& key, std::vector<LockedBuild>& builds, const BaseSystem& base,
                     EnvironmentTree& tree, Made& made) {
    for (LockedBuild& build : builds) {
      WheelSource source{.name = build.package.name, .version = build.package.version, .sha256 = build.sha256};
      // Beside the tree, so that it goes with it should this process die.
      const fs::path output = TRY(base::make_temporary_directory(m_store.staging(key), "built"));
      auto done = build_one(build, base, output, source, tree, made);
      TRY(base::remove_tree(output));
      TRY(std::move(done));
    }
    return {};
  }

  Result<void> build_one(LockedBuild& build, const BaseSystem& base, const fs::path& output, WheelSource source,
                         EnvironmentTree& tree, Made& made) {
    if (build.sha256.empty()) {
      const fs::path wheel = TRY(m_suppliers.build_wheel(build.package,
                                                         {.suite = m_suite,
                                                          .base = base.root,
                                                          .lock_directory = m_options.lock_directory,
                                                          .state_root = m_options.store.parent_path(),
                                                          .output = output,
                                                          .lock = &m_lock},
                                                         m_machine, m_reporter));
      source.sha256 = TRY(base::sha256_file_hex(wheel));
      source.filename = wheel.filename().string();
      source.size = fs::file_size(wheel);
      source.address = base::file_address(wheel);
    }
    TRY(add({source}, {{source.sha256, build.direct_url}}, tree, made));
    build.sha256 = source.sha256;
    return remember_build(m_store, build, source.sha256);
  }

  Result<void> publish(const std::string& key, const Manifest& manifest, const EnvironmentTree& tree, Made& made,
                       const BaseSystem& base) {
    made.collisions = tree.collisions();
    made.size = tree.size();
    const fs::path staging = m_store.staging(key);
    TRY(base::write_file_atomic(staging / "manifest.json", manifest_text(manifest), 0444));
    TRY(base::write_file_atomic(staging / "details.json", base::to_pretty_text(details(made, base)), 0444));
    for (const Collision& collision : made.collisions)
      m_reporter.warn(fmt::format("{} and {} both bring {}; {}'s is taken", collision.loser, collision.winner,
                                  collision.path, collision.winner));
    TRY(drop_fallen(manifest_id(manifest)));
    return m_store.publish(key, m_store.image(manifest_id(manifest)));
  }

  [[nodiscard]] Json details(Made& made, const BaseSystem& base) const {
    std::ranges::sort(made.trees, {}, [](const WheelTree& tree) { return normalized_name(tree.name); });
    Json packages = Json::array();
    for (const WheelTree& tree : made.trees)
      packages.push_back({{"name", tree.name},
                          {"version", tree.version},
                          {"size_bytes", tree.size},
                          {"sha256", tree.sha256},
                          {"commands", tree.commands},
                          {"requires_dist", tree.requires_dist}});
    Json collisions = Json::array();
    for (const Collision& collision : made.collisions)
      collisions.push_back({{"path", collision.path}, {"winner", collision.winner}, {"loser", collision.loser}});
    return Json{{"created", base::to_text(base::now())},
                {"framework", m_lock.framework},
                {"framework_version", m_lock.framework_version},
                {"cuda", m_lock.cuda},
                {"python", m_lock.python},
                {"suite", m_suite},
                {"base", {{"recipe", base.recipe}, {"digest", base.digest}, {"size_bytes", base.size.count}}},
                {"lock_digest", lock::digest(m_lock)},
                {"size_bytes", made.size},
                {"collisions", std::move(collisions)},
                {"packages", std::move(packages)},
                {"lock", lock::to_toml(m_lock)}};
  }

  const Suppliers& m_suppliers;
  const lock::Lock& m_lock;
  const machine::Machine& m_machine;
  const EnsureOptions& m_options;
  Reporter& m_reporter;
  const Store& m_store;
  std::string m_suite;
  LockContents m_contents;
};

}  // namespace

Suppliers real_suppliers() {
  return {.find_base = find_base, .make_base = ensure_base, .build_wheel = build_wheel, .transfers = {}};
}

Result<std::string> suite_of(const lock::Lock& lock) {
  if (!lock.suite.empty()) return lock.suite;
  if (const auto* suite = lock::suite_with_python(lock.python)) return suite->name;
  return base::fail(base::error(ErrorCode::refused, fmt::format("no Debian suite has Python {}", lock.python))
                        .with_hint("`trail lock` chooses a Python that one has"));
}

Result<base::Fd> hold_store(const fs::path& store_path, Reporter& reporter) {
  const Store store = TRY(Store::open(store_path));
  TRY(settle_doubts(store, reporter));
  return store.use();
}

Result<Image> ensure_with(const Suppliers& suppliers, const lock::Lock& lock, const machine::Machine& machine,
                          const EnsureOptions& options, Reporter& reporter) {
  const base::Fd in_use = TRY(hold_store(options.store, reporter));
  const Store store = Store::at(options.store);
  return Making(suppliers, lock, machine, options, reporter, store).run();
}

Result<Image> ensure(const lock::Lock& lock, const machine::Machine& machine, const EnsureOptions& options,
                     Reporter& reporter) {
  return ensure_with(real_suppliers(), lock, machine, options, reporter);
}

}  // namespace startrail::image
