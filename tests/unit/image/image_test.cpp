// From locks to images: identity, the merged tree, collisions, editables, listing, pruning, checking.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>

#include "base/json.hpp"
#include "image/environment_tree.hpp"
#include "image/image_folder.hpp"
#include "image/making.hpp"
#include "store_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Notes what a user would have been told.
struct Listener final : base::Reporter {
  void step(std::string_view) override {}
  void progress(const base::Progress&) override {}
  void note(std::string_view) override {}
  void warn(std::string_view text) override {
    const std::scoped_lock lock(mutex);
    warnings.emplace_back(text);
  }
  std::mutex mutex;
  std::vector<std::string> warnings;
};

class Images : public StoreFixture {
 protected:
  // The base is lent: a folder with one file, as `ensure_base` would have left it.
  [[nodiscard]] Suppliers suppliers() {
    Suppliers lent = real_suppliers();
    lent.find_base = [this](const fs::path& store, const std::string& recipe) -> std::optional<BaseSystem> {
      if (!fs::exists(store / "bases" / base_digest)) return std::nullopt;
      return BaseSystem{
          .recipe = recipe, .digest = base_digest, .root = store / "bases" / base_digest / "root", .size = {1}};
    };
    lent.make_base = [this, find = lent.find_base](const fs::path& store, const BaseRecipe& recipe,
                                                   Reporter&) -> Result<BaseSystem> {
      ++bases_made;
      const fs::path folder = store / "bases" / base_digest;
      EXPECT_TRUE(base::make_directories(folder / "root" / "usr"));
      EXPECT_TRUE(base::write_file_atomic(folder / "meta.json", R"({"digest": ")" + base_digest + "\"}"));
      return *find(store, recipe.digest);
    };
    lent.build_wheel = [this](const lock::LockedPackage& package, const SourceBuild& build, const machine::Machine&,
                              Reporter&) -> Result<fs::path> {
      ++wheels_built;
      WheelBuilder wheel{.name = package.name, .version = package.version};
      const bool editable = package.editable == project::Editable::yes;
      wheel.add(package.name + (editable ? "-link.pth" : ".py"), editable ? "/workspace\n" : "x = 1\n");
      EXPECT_TRUE(base::write_file_atomic(build.output / wheel.filename(), wheel.bytes()));
      return build.output / wheel.filename();
    };
    return lent;
  }

  static lock::LockedPackage package(const WheelSource& wheel) {
    return {.name = wheel.name,
            .version = wheel.version,
            .kind = lock::PackageKind::wheel,
            .artifact = {.filename = wheel.filename,
                         .url = wheel.address,
                         .path = {},
                         .size = {wheel.size},
                         .sha256 = wheel.sha256}};
  }
  lock::Lock lock_of(const std::vector<WheelBuilder>& wheels) const {
    lock::Lock lock{.python = "3.11",
                    .suite = "bookworm",
                    .base_recipe = base_recipe("bookworm", {}).digest,
                    .framework = "demo",
                    .framework_version = "1.0"};
    for (const WheelBuilder& wheel : wheels) lock.packages.push_back(package(source(wheel)));
    return lock;
  }

  Result<Image> make(const lock::Lock& lock) {
    machine::Machine machine;
    machine.cpus = 2;
    return ensure_with(suppliers(), lock, machine, {.store = root(), .lock_directory = m_folder}, listener);
  }
  Image made(const lock::Lock& lock) {
    auto image = make(lock);
    EXPECT_TRUE(image) << (image ? "" : to_text(image.error()));
    return image ? *image : Image();
  }
  static WheelBuilder simple(const std::string& name = "demo", const std::string& version = "1.0") {
    WheelBuilder wheel{.name = name, .version = version};
    wheel.add(name + "/__init__.py", "name = '" + name + version + "'\n");
    return wheel;
  }
  static fs::path site(const Image& image) { return image.layers.front() / "opt/env/lib/python3.11/site-packages"; }
  std::vector<StoreFault> faults() {
    auto found = verify_store(root(), listener);
    EXPECT_TRUE(found);
    return *found;
  }
  // Nothing was used a moment ago.
  void age() const {
    for (const std::string& id : image_ids(store())) {
      const timespec long_ago[2]{{.tv_sec = 1'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000, .tv_nsec = 0}};
      ::utimensat(AT_FDCWD, (store().image(id) / "used").c_str(), long_ago, 0);
    }
  }

  // Of the lent base: one empty folder.
  std::string base_digest = base::sha256_hex("dir 755 usr \n");
  std::atomic<int> bases_made{0}, wheels_built{0};
  Listener listener;
};

TEST_F(Images, an_image_is_a_virtual_environment_of_hard_links) {
  WheelBuilder wheel = simple();
  wheel.add("demo-1.0.dist-info/entry_points.txt", "[console_scripts]\ndemo = demo:main\n");
  const Image image = made(lock_of({wheel}));
  const fs::path env = image.layers.front() / "opt/env";
  EXPECT_EQ(content(site(image) / "demo/__init__.py"), "name = 'demo1.0'\n");
  EXPECT_EQ(fs::read_symlink(env / "bin/python"), "/usr/bin/python3.11");
  EXPECT_EQ(fs::read_symlink(env / "bin/python3"), "python");
  EXPECT_TRUE(fs::exists(env / "bin/demo"));
  EXPECT_THAT(content(env / "pyvenv.cfg"), HasSubstr("home = /usr/bin"));
  EXPECT_EQ(fs::hard_link_count(site(image) / "demo/__init__.py"), 2U);
  EXPECT_EQ(image.layers.back(), root() / "bases" / base_digest / "root");
  EXPECT_EQ(image.environment.at("PATH").substr(0, 13), "/opt/env/bin:");
}

TEST_F(Images, the_same_lock_is_the_same_image_and_nothing_is_done_twice) {
  const lock::Lock lock = lock_of({simple()});
  const Image first = made(lock);
  EXPECT_EQ(made(lock).id, first.id);
  EXPECT_EQ(bases_made, 1);
  EXPECT_THAT(first.id, ::testing::MatchesRegex("sha256:[0-9a-f]{64}"));
}

TEST_F(Images, the_id_is_the_hash_of_the_manifest_and_knows_no_time) {
  const lock::Lock lock = lock_of({simple()});
  const Image first = made(lock);
  EXPECT_EQ(first.id, "sha256:" + base::sha256_hex(content(store().image(first.id) / "manifest.json")));
  ASSERT_TRUE(base::remove_tree(root()));
  EXPECT_EQ(made(lock).id, first.id);
}

TEST_F(Images, another_wheel_python_or_base_is_another_image) {
  const Image one = made(lock_of({simple()}));
  EXPECT_NE(made(lock_of({simple("demo", "2.0")})).id, one.id);
  EXPECT_NE(made(lock_of({simple(), simple("more")})).id, one.id);
  base_digest = std::string(64, 'c');
  EXPECT_NE(made(lock_of({simple()})).id, one.id);
}

TEST_F(Images, images_share_the_files_of_their_wheels) {
  const Image one = made(lock_of({simple()}));
  const Image two = made(lock_of({simple(), simple("more")}));
  EXPECT_EQ(fs::hard_link_count(site(two) / "demo/__init__.py"), 3U);
  EXPECT_TRUE(fs::equivalent(site(one) / "demo/__init__.py", site(two) / "demo/__init__.py"));
}

TEST_F(Images, two_makers_at_once_get_one_image) {
  std::vector<WheelBuilder> wheels;
  for (int number = 0; number < 12; ++number) wheels.push_back(simple("demo" + std::to_string(number)));
  const lock::Lock lock = lock_of(wheels);
  (void)store();
  auto other = std::async(std::launch::async, [&] { return make(lock); });
  const auto mine = make(lock);
  const auto theirs = other.get();
  ASSERT_TRUE(mine);
  ASSERT_TRUE(theirs) << to_text(theirs.error());
  EXPECT_EQ(mine->id, theirs->id);
  EXPECT_THAT(image_ids(store()), SizeIs(1));
}

// ---- collisions ----

TEST_F(Images, of_two_packages_with_one_file_the_alphabetically_last_wins_and_it_is_told) {
  WheelBuilder a = simple("aaa"), b = simple("bbb");
  a.add("shared/x.py", "from a").add("shared/__init__.py", "");
  b.add("shared/x.py", "from b").add("shared/__init__.py", "");
  for (const bool turned : {false, true}) {
    if (turned) {
      ASSERT_TRUE(base::remove_tree(root()));
    }
    const Image image = made(turned ? lock_of({b, a}) : lock_of({a, b}));
    EXPECT_EQ(content(site(image) / "shared/x.py"), "from b");
    const auto told = inspect(root(), image.id);
    ASSERT_TRUE(told);
    ASSERT_THAT(base::member(*told, "collisions"), SizeIs(1)) << "equal files are no collision";
    EXPECT_EQ(base::string_at(base::member(*told, "collisions")[0], "winner"), "bbb");
    EXPECT_THAT(listener.warnings.back(), HasSubstr("shared/x.py"));
  }
}

TEST_F(Images, a_file_of_one_package_where_another_has_a_folder_is_refused) {
  WheelBuilder a = simple("aaa"), b = simple("bbb");
  a.add("shared", "a file");
  b.add("shared/x.py", "in a folder");
  const auto image = make(lock_of({a, b}));
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::conflict);
  EXPECT_THAT(image.error().message, HasSubstr("shared"));
}

TEST_F(Images, namespace_packages_are_merged) {
  WheelBuilder a = simple("aaa"), b = simple("bbb");
  a.add("space/one/__init__.py", "1");
  b.add("space/two/__init__.py", "2");
  const Image image = made(lock_of({a, b}));
  EXPECT_TRUE(fs::exists(site(image) / "space/one/__init__.py"));
  EXPECT_TRUE(fs::exists(site(image) / "space/two/__init__.py"));
  EXPECT_THAT(listener.warnings, IsEmpty());
}

// ---- what is not from an index ----

TEST_F(Images, an_archive_records_where_it_came_from) {
  lock::Lock lock = lock_of({simple()});
  lock.packages[0].kind = lock::PackageKind::archive;
  const Image image = made(lock);
  EXPECT_THAT(content(site(image) / "demo-1.0.dist-info/direct_url.json"), HasSubstr("archive_info"));
  EXPECT_THAT(content(site(image) / "demo-1.0.dist-info/RECORD"),
              HasSubstr("demo-1.0.dist-info/direct_url.json,sha256="));
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(Images, an_archive_beside_the_lock_is_recorded_where_code_in_the_image_sees_it) {
  lock::Lock lock = lock_of({simple()});
  lock::LockedPackage& archive = lock.packages[0];
  archive.kind = lock::PackageKind::archive;
  archive.artifact.url = "";
  archive.artifact.path = "größe/" + archive.artifact.filename;
  fs::create_directories(m_folder / "größe");
  fs::copy_file(m_folder / "files" / archive.artifact.filename, m_folder / archive.artifact.path);
  const Image image = made(lock);
  EXPECT_THAT(content(site(image) / "demo-1.0.dist-info/direct_url.json"),
              HasSubstr("\"url\":\"file:///workspace/gr%C3%B6%C3%9Fe/demo-1.0-"));
}

TEST_F(Images, headers_lie_beside_the_environments_python_and_are_recorded) {
  WheelBuilder wheel = simple();
  wheel.add("demo-1.0.data/headers/demo.h", "#define X\n");
  const Image image = made(lock_of({wheel}));
  EXPECT_TRUE(fs::exists(image.layers.front() / "opt/env/include/site/python3.11/demo/demo.h"));
  EXPECT_THAT(content(site(image) / "demo-1.0.dist-info/RECORD"),
              HasSubstr("../../../include/site/python3.11/demo/demo.h,sha256="));
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(Images, an_sdist_is_built_once) {
  lock::Lock lock = lock_of({simple("other")});
  lock.packages.push_back({.name = "built",
                           .version = "1.0",
                           .kind = lock::PackageKind::sdist,
                           .artifact = {.filename = "built-1.0.tar.gz", .sha256 = std::string(64, 'a')}});
  const Image image = made(lock);
  EXPECT_TRUE(fs::exists(site(image) / "built.py"));
  EXPECT_EQ(made(lock).id, image.id);
  EXPECT_EQ(wheels_built, 1);
}

TEST_F(Images, an_editable_is_a_small_layer_above_a_shared_image) {
  ASSERT_TRUE(base::write_file_atomic(m_folder / "pyproject.toml", "[project]\nname = 'mine'\n"));
  const lock::Lock plain = lock_of({simple()});
  lock::Lock lock = plain;
  lock.packages.push_back({.name = "mine",
                           .version = "0.1",
                           .kind = lock::PackageKind::directory,
                           .directory = ".",
                           .editable = project::Editable::yes});
  const Image shared = made(plain);
  const Image image = made(lock);
  EXPECT_NE(image.id, shared.id);
  ASSERT_THAT(image.layers, SizeIs(3));
  EXPECT_EQ(image.layers[1], shared.layers[0]);
  EXPECT_EQ(content(site(image) / "mine-link.pth"), "/workspace\n");
  EXPECT_THAT(content(site(image) / "mine-0.1.dist-info/direct_url.json"), HasSubstr("\"editable\":true"));
  EXPECT_EQ(open(root(), image.id)->layers, image.layers);

  // Code may change without a new image; what the project says of itself may not.
  ASSERT_TRUE(base::write_file_atomic(m_folder / "train.py", "print(1)\n"));
  EXPECT_EQ(made(lock).id, image.id);
  EXPECT_EQ(wheels_built, 1);
  ASSERT_TRUE(base::write_file_atomic(m_folder / "pyproject.toml", "[project]\nname = 'mine'\nversion = '2'\n"));
  (void)made(lock);
  EXPECT_EQ(wheels_built, 2);
}

// ---- plan ----

TEST_F(Images, a_plan_tells_what_is_missing) {
  const lock::Lock lock = lock_of({simple(), simple("more")});
  const auto before = plan(lock, root());
  ASSERT_TRUE(before);
  EXPECT_EQ(before->wheels_total, 2);
  EXPECT_EQ(before->wheels_missing, 2);
  EXPECT_TRUE(before->base_missing);
  EXPECT_EQ(before->download.count, lock.packages[0].artifact.size.count + lock.packages[1].artifact.size.count);
  EXPECT_GT(before->disk_needed, before->download);
  (void)made(lock);
  EXPECT_EQ(plan(lock, root())->wheels_missing, 0);
  EXPECT_EQ(plan(lock, root())->download.count, 0U);
}

TEST_F(Images, too_little_disk_is_refused_before_the_first_byte) {
  lock::Lock lock = lock_of({simple()});
  lock.packages[0].artifact.size = {1'000'000'000'000'000};
  lock.packages[0].artifact.url = "http://127.0.0.1:1/never-asked.whl";
  const auto image = make(lock);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::no_space);
  EXPECT_THAT(image.error().message, ::testing::AllOf(HasSubstr("needs"), HasSubstr("free")));
  EXPECT_EQ(bases_made, 0);
}

// ---- open, list, inspect ----

TEST_F(Images, an_image_is_found_by_a_prefix_of_its_id) {
  const Image image = made(lock_of({simple()}));
  EXPECT_EQ(open(root(), image.id)->id, image.id);
  EXPECT_EQ(open(root(), image.id.substr(7, 6))->id, image.id);
  const auto missing = open(root(), "ffffff");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

TEST_F(Images, an_ambiguous_prefix_is_told) {
  for (int number = 0; number < 20; ++number) (void)made(lock_of({simple("demo", std::to_string(number))}));
  std::map<char, int> first;
  for (const std::string& id : image_ids(store())) ++first[id[0]];
  const auto twice = std::ranges::find_if(first, [](const auto& pair) { return pair.second > 1; });
  const auto found = open(root(), std::string(1, twice->first));  // of 20 ids some share a first digit of 16
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::invalid_input);
}

TEST_F(Images, a_damaged_manifest_is_not_opened) {
  const Image image = made(lock_of({simple()}));
  const fs::path manifest = store().image(image.id) / "manifest.json";
  ASSERT_TRUE(base::write_file_atomic(manifest, content(manifest) + " "));
  const auto opened = open(root(), image.id);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::corrupt);
}

TEST_F(Images, listing_and_inspecting_tell_what_is_inside) {
  const Image image = made(lock_of({simple(), simple("more")}));
  const auto images = list(root());
  ASSERT_TRUE(images);
  ASSERT_THAT(*images, SizeIs(1));
  EXPECT_EQ(images->front().id, image.id);
  EXPECT_EQ(images->front().packages, 2);
  EXPECT_EQ(images->front().framework, "demo");
  EXPECT_GT(images->front().size.count, 0U);
  const auto told = inspect(root(), image.id);
  ASSERT_TRUE(told);
  EXPECT_EQ(base::string_at(*told, "python"), "3.11");
  EXPECT_EQ(base::string_at(base::member(*told, "base"), "digest"), base_digest);
  EXPECT_EQ(base::string_at(base::member(*told, "packages")[1], "name"), "more");
  EXPECT_THAT(base::string_at(*told, "lock"), HasSubstr("lock-version"));
  EXPECT_TRUE(base::boolean_at(*told, "usable"));
}

// ---- prune ----

TEST_F(Images, pruning_removes_images_and_the_wheels_that_only_they_had) {
  const lock::Lock kept_lock = lock_of({simple()});
  const Image kept = made(kept_lock);
  const Image gone = made(lock_of({simple(), simple("more")}));
  age();
  const auto result = prune(root(), {.keep_images = {kept.id}}, listener);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->images, 1);
  EXPECT_EQ(result->wheels, 1);
  EXPECT_GT(result->freed.count, 0U);
  EXPECT_TRUE(open(root(), kept.id));
  EXPECT_FALSE(open(root(), gone.id));
  EXPECT_THAT(faults(), IsEmpty());
  EXPECT_EQ(made(kept_lock).id, kept.id);
}

TEST_F(Images, images_used_lately_are_not_pruned) {
  (void)made(lock_of({simple()}));
  EXPECT_EQ(prune(root(), {}, listener)->images, 0);
  age();
  EXPECT_EQ(prune(root(), {.unused_for = std::chrono::hours(24 * 36500)}, listener)->images, 0);
  EXPECT_EQ(prune(root(), {.unused_for = std::chrono::hours(1)}, listener)->images, 1);
}

TEST_F(Images, pruning_everything_takes_wheels_bases_and_leftovers) {
  (void)made(lock_of({simple()}));
  ASSERT_TRUE(base::write_file_atomic(root() / "downloads" / "x.part", "left over"));
  ASSERT_TRUE(base::make_directories(root() / "staging" / "left-over"));
  age();
  const auto result = prune(root(), {.everything_unused = true}, listener);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->images, 1);
  EXPECT_EQ(result->wheels, 1);
  EXPECT_EQ(result->bases, 1);
  for (const char* folder : {"wheels", "images", "downloads", "staging", "bases"})
    EXPECT_TRUE(fs::is_empty(root() / folder)) << folder;
}

TEST_F(Images, the_image_below_a_kept_one_is_kept) {
  ASSERT_TRUE(base::write_file_atomic(m_folder / "pyproject.toml", ""));
  lock::Lock lock = lock_of({simple()});
  lock.packages.push_back({.name = "mine",
                           .version = "0.1",
                           .kind = lock::PackageKind::directory,
                           .directory = ".",
                           .editable = project::Editable::yes});
  const Image image = made(lock);
  age();
  ASSERT_TRUE(prune(root(), {.keep_images = {image.id}, .everything_unused = true}, listener));
  EXPECT_TRUE(open(root(), image.id));
  EXPECT_THAT(faults(), IsEmpty());
}

// ---- verify_store ----

class Verify : public Images {
 protected:
  void SetUp() override {
    Images::SetUp();
    lock = lock_of({simple(), simple("more")});
    image = made(lock);
    other = made(lock_of({simple("more")}));
    ASSERT_THAT(faults(), IsEmpty());
  }
  void expect_fault(const std::string& what) {
    const auto found = faults();
    ASSERT_FALSE(found.empty());
    std::string all;
    for (const StoreFault& fault : found) all += fault.what + "\n";
    EXPECT_THAT(all, HasSubstr(what));
  }
  [[nodiscard]] fs::path file() const { return site(image) / "demo/__init__.py"; }
  [[nodiscard]] fs::path wheel_of(const std::string& name) const {
    for (const auto& entry : fs::directory_iterator(root() / "wheels"))
      if (fs::exists(entry.path() / "site" / name)) return entry.path();
    return {};
  }
  static void flip(const fs::path& path) {
    const base::Fd fd = *base::open_file(path, O_WRONLY);
    ASSERT_EQ(::pwrite(fd.get(), "X", 1, 3), 1);
  }
  RepairResult repaired(const RepairOptions& options = {}) {
    age();
    auto result = repair_store(root(), options, listener);
    EXPECT_TRUE(result) << (result ? "" : to_text(result.error()));
    return result ? *result : RepairResult();
  }
  // Everything that was wrong is right again, and the image can be made again.
  void expect_whole_again() {
    EXPECT_THAT(faults(), IsEmpty());
    EXPECT_EQ(made(lock).id, image.id);
    EXPECT_EQ(content(file()), "name = 'demo1.0'\n");
    EXPECT_THAT(faults(), IsEmpty());
  }
  static std::string bare(const Image& image) { return image.id.substr(7); }
  lock::Lock lock;
  Image image, other;
};

TEST_F(Verify, finds_a_flipped_byte) {
  flip(file());
  expect_fault("wheel demo-1.0: site/demo/__init__.py differs from RECORD");
}

TEST_F(Verify, finds_a_missing_link) {
  fs::remove(file());
  expect_fault("lib/python3.11/site-packages/demo/__init__.py is missing");
}

TEST_F(Verify, finds_a_replaced_link) {
  fs::remove(file());
  ASSERT_TRUE(base::write_file_atomic(file(), "something else"));
  expect_fault("demo/__init__.py is not what its package brings");
}

TEST_F(Verify, finds_a_wrong_manifest) {
  const fs::path manifest = store().image(image.id) / "manifest.json";
  ASSERT_TRUE(base::write_file_atomic(manifest, "{}"));
  expect_fault("does not match its name");
}

TEST_F(Verify, finds_a_missing_wheel_a_stranger_and_a_changed_mode) {
  const fs::path wheel = wheel_of("demo");
  ASSERT_TRUE(base::write_file_atomic(wheel / "site" / "stranger.py", "x"));
  expect_fault("site/stranger.py does not belong to it");
  ::chmod(file().c_str(), 0644);
  expect_fault("has the mode 644");
  ASSERT_TRUE(base::remove_tree(wheel));
  expect_fault("is missing");
}

TEST_F(Verify, finds_a_missing_base) {
  ASSERT_TRUE(base::remove_tree(root() / "bases"));
  expect_fault("its base is missing");
}

TEST_F(Verify, finds_a_changed_base) {
  ASSERT_TRUE(base::write_file_atomic(root() / "bases" / base_digest / "root" / "usr" / "stranger", "x"));
  expect_fault("its files are not those that it was made with");
}

TEST_F(Verify, finds_strangers_and_changed_links_in_an_image) {
  ASSERT_TRUE(base::write_file_atomic(site(image) / "sitecustomize.py", "import os\n"));
  expect_fault("sitecustomize.py does not belong to it");
  const fs::path python = image.layers.front() / "opt/env/bin/python";
  fs::remove(python);
  expect_fault("bin/python is missing");
  fs::create_symlink("/tmp/evil", python);
  expect_fault("bin/python is not what its package brings");
  ASSERT_TRUE(base::write_file_atomic(image.layers.front() / "opt/env/pyvenv.cfg", "home = /tmp\n"));
  expect_fault("pyvenv.cfg is not what its package brings");
}

TEST_F(Verify, finds_what_a_killed_build_left_but_not_what_a_live_one_holds) {
  ASSERT_TRUE(base::make_directories(root() / "staging" / "image-x" / "tree"));
  {
    const auto held = base::FileLock::acquire(root() / "locks" / "image-x.lock");
    ASSERT_TRUE(held);
    EXPECT_THAT(faults(), IsEmpty());
  }
  expect_fault("image-x was left by a build that ended early");
}

TEST_F(Verify, finds_a_download_of_a_wheel_that_is_here) {
  const std::string sha256 = wheel_of("demo").filename().string().substr(0, 64);
  ASSERT_TRUE(base::write_file_atomic(store().part(sha256), "left"));
  expect_fault("is of a wheel that is here already");
}

// ---- repair_store ----

class Repair : public Verify {};

TEST_F(Repair, a_whole_store_stays_as_it_is) {
  age();
  const auto before = snapshot();
  const RepairResult result = repaired();
  EXPECT_THAT(result.repaired, IsEmpty());
  EXPECT_THAT(result.left, IsEmpty());
  EXPECT_EQ(snapshot(), before);
}

TEST_F(Repair, a_damaged_wheel_goes_with_the_images_made_from_it) {
  flip(file());
  const RepairResult result = repaired();
  EXPECT_THAT(result.images, ::testing::ElementsAre(bare(image)));
  EXPECT_TRUE(wheel_of("demo").empty());
  EXPECT_TRUE(open(root(), other.id));
  expect_whole_again();
}

TEST_F(Repair, a_missing_file_a_lost_meta_and_a_missing_wheel_are_fetched_again) {
  const std::vector<std::function<void(const fs::path&)>> blows{
      [](const fs::path& wheel) { fs::remove(wheel / "site/demo/__init__.py"); },
      [](const fs::path& wheel) { fs::remove(wheel / "meta.json"); },
      [](const fs::path& wheel) { EXPECT_TRUE(base::remove_tree(wheel)); }};
  for (const auto& blow : blows) {
    blow(wheel_of("demo"));
    EXPECT_THAT(repaired().images, ::testing::ElementsAre(bare(image)));
    expect_whole_again();
  }
}

TEST_F(Repair, a_wrong_mode_is_set_right_and_nothing_goes) {
  ::chmod(file().c_str(), 0644);
  EXPECT_THAT(repaired().images, IsEmpty());
  EXPECT_TRUE(open(root(), image.id));
  expect_whole_again();
}

TEST_F(Repair, strangers_and_leftovers_go_and_nothing_else) {
  ASSERT_TRUE(base::write_file_atomic(wheel_of("demo") / "site" / "stranger.py", "x"));
  ASSERT_TRUE(base::make_directories(root() / "staging" / "wheel-x" / "site"));
  ASSERT_TRUE(base::make_directories(root() / "bases" / ("staging-" + std::string(64, 'c')) / "root"));
  const RepairResult result = repaired();
  EXPECT_THAT(result.repaired, SizeIs(3));
  EXPECT_THAT(result.images, IsEmpty());
  expect_whole_again();
}

TEST_F(Repair, a_damaged_image_goes_and_its_wheels_stay) {
  fs::remove(file());
  EXPECT_THAT(repaired().images, ::testing::ElementsAre(bare(image)));
  EXPECT_FALSE(wheel_of("demo").empty());
  expect_whole_again();
}

TEST_F(Repair, a_changed_base_goes_with_every_image_on_it) {
  ASSERT_TRUE(base::write_file_atomic(root() / "bases" / base_digest / "root" / "usr" / "stranger", "x"));
  EXPECT_THAT(repaired().images, SizeIs(2));
  expect_whole_again();
  EXPECT_EQ(bases_made, 2);
}

TEST_F(Repair, what_a_live_run_uses_is_left_as_it_is) {
  flip(file());
  fs::remove(site(other) / "more/__init__.py");
  const RepairResult result = repaired({.keep_images = {image.id}});
  ASSERT_THAT(result.left, SizeIs(1));
  EXPECT_THAT(result.left.front().what, HasSubstr("demo/__init__.py differs"));
  EXPECT_THAT(result.images, ::testing::ElementsAre(bare(other)));
  EXPECT_TRUE(fs::exists(file()));
  EXPECT_TRUE(open(root(), image.id));
  EXPECT_THAT(repaired().left, IsEmpty());
  expect_whole_again();
}

TEST_F(Repair, an_image_used_a_moment_ago_is_left_as_it_is) {
  flip(file());
  touch_image(store(), bare(image));
  const auto result = repair_store(root(), {}, listener);
  ASSERT_TRUE(result);
  EXPECT_THAT(result->left, SizeIs(1));
  EXPECT_THAT(result->images, IsEmpty());
}

TEST_F(Images, a_wheel_that_lost_its_meta_is_replaced_by_the_next_build) {
  const lock::Lock lock = lock_of({simple()});
  const Image image = made(lock);
  fs::remove(fs::directory_iterator(root() / "wheels")->path() / "meta.json");
  ASSERT_TRUE(base::remove_tree(store().image(image.id)));
  EXPECT_EQ(made(lock).id, image.id);
  EXPECT_THAT(faults(), IsEmpty());
}

// ---- the merged tree alone ----

TEST_F(Images, a_tree_on_another_filesystem_gets_copies) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting another filesystem needs root";
  const fs::path other = m_folder / "other";
  ASSERT_TRUE(base::make_directories(other));
  if (::mount("tmpfs", other.c_str(), "tmpfs", 0, "size=8m") != 0) GTEST_SKIP() << "this container may not mount";
  const WheelSource wheel = source(simple());
  ASSERT_TRUE(install({wheel}));
  {
    const auto environment = EnvironmentTree::create(other / "tree", "3.11");
    ASSERT_TRUE(environment);
    ASSERT_TRUE((*environment)->add(*read_wheel_tree(tree(wheel)), tree(wheel)));
  }
  const fs::path copied = other / "tree/opt/env/lib/python3.11/site-packages/demo/__init__.py";
  EXPECT_EQ(content(copied), "name = 'demo1.0'\n");
  struct stat status{};
  ::stat(copied.c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777U, 0444U);
  EXPECT_EQ(::umount2(other.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace startrail::image::testing
