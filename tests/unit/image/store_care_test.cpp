// What the store takes of the disk, told as the disk sees it, and making it smaller.
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.hpp"
#include "base/process.hpp"
#include "image/image.hpp"
#include "image/image_folder.hpp"
#include "image/store_inventory.hpp"
#include "store_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t k_large = 400'000;

// Images of wheels that are folders with one file, as hard links: what counts here is who has which file.
class StoreCare : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    (void)store();
    base_digest = add_base("one");
  }

  std::string add_base(const std::string& name) const {
    const std::string digest = base::sha256_hex(name);
    write(root() / "bases" / digest / "root/usr/base", 100'000);
    EXPECT_TRUE(base::write_file_atomic(root() / "bases" / ("recipe-" + base::sha256_hex(digest)), digest + "\n"));
    return digest;
  }
  static void write(const fs::path& file, std::uint64_t size) {
    EXPECT_TRUE(base::make_directories(file.parent_path()));
    EXPECT_TRUE(base::write_file_atomic(file, std::string(size, 'x')));
  }
  std::string add_wheel(const std::string& name, std::uint64_t size = k_large) const {
    const std::string sha256 = base::sha256_hex(name);
    if (store().has_wheel(sha256)) return sha256;
    write(store().wheel(sha256) / "site" / name, size);
    EXPECT_TRUE(base::write_file_atomic(store().wheel(sha256) / "meta.json", "{}"));
    write(store().bytecode(sha256, "cpython-311") / "meta.json", 10);
    return sha256;
  }
  // Used `days` ago.
  std::string add_image(const std::vector<std::string>& wheels, int days, const std::string& parent = {}) const {
    Manifest manifest{.lock = "lock", .python = "3.11", .base_recipe = "r", .base_digest = base_digest};
    for (const std::string& name : wheels)
      manifest.wheels.push_back({.name = name, .sha256 = add_wheel(name), .direct_url = {}});
    manifest.parent = parent;
    const std::string id = manifest_id(manifest);
    const fs::path folder = store().image(id);
    EXPECT_TRUE(base::make_directories(folder / "tree/site"));
    for (const ManifestWheel& wheel : manifest.wheels)
      fs::create_hard_link(store().wheel(wheel.sha256) / "site" / wheel.name, folder / "tree/site" / wheel.name);
    EXPECT_TRUE(base::write_file_atomic(folder / "manifest.json", manifest_text(manifest)));
    EXPECT_TRUE(base::write_file_atomic(folder / "details.json", "{}"));
    used(id, days);
    return id;
  }
  void used(const std::string& id, int days) const {
    touch_image(store(), id);
    const time_t then = ::time(nullptr) - (static_cast<time_t>(days) * 86400) - 120;
    const timespec times[2]{{.tv_sec = then, .tv_nsec = 0}, {.tv_sec = then, .tv_nsec = 0}};
    ::utimensat(AT_FDCWD, (store().image(id) / "used").c_str(), times, 0);
  }
  [[nodiscard]] std::uint64_t du(const std::vector<std::string>& paths) const {
    std::vector<std::string> command{"du", "-s", "-c", "-B1"};
    command.insert(command.end(), paths.begin(), paths.end());
    const auto ended = base::run_process({.argv = command});
    EXPECT_TRUE(ended);
    const std::string& text = ended->output;
    return std::stoull(text.substr(text.rfind('\n', text.size() - 2) + 1));
  }
  PruneResult pruned(const PruneOptions& options) {
    base::SilentReporter reporter;
    auto result = prune(root(), options, reporter);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? *result : PruneResult();
  }
  [[nodiscard]] ImageUsage usage_of(const std::string& id) const {
    const auto usage = disk_usage(root());
    for (const ImageUsage& image : usage->images)
      if (image.id == id) return image;
    ADD_FAILURE() << id << " is not told";
    return {};
  }

  std::string base_digest;
};

TEST_F(StoreCare, the_whole_is_what_du_says_although_files_have_several_names) {
  (void)add_image({"torch", "numpy"}, 1);
  (void)add_image({"torch", "timm"}, 2);
  write(root() / "downloads" / "x.part", 30'000);
  const auto usage = disk_usage(root());
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->total.count, du({root().string()}));
  EXPECT_EQ(usage->total.count, usage->wheels.count + usage->layers.count + usage->bases.count + usage->bytecode.count +
                                    usage->trees.count + usage->unfinished.count + usage->other.count);
  EXPECT_GT(usage->wheels.count, 3 * k_large);
  EXPECT_LT(usage->wheels.count, 4 * k_large);
}

TEST_F(StoreCare, an_image_by_itself_is_what_du_says_of_all_that_it_needs) {
  const std::string id = add_image({"torch", "numpy"}, 1);
  (void)add_image({"torch", "timm"}, 2);
  std::vector<std::string> paths{store().image(id).string(), (root() / "bases" / base_digest).string()};
  for (const char* name : {"torch", "numpy"}) {
    paths.push_back(store().wheel(base::sha256_hex(name)).string());
    paths.push_back(store().bytecode(base::sha256_hex(name), "cpython-311").string());
  }
  EXPECT_EQ(usage_of(id).size.count, du(paths));
}

TEST_F(StoreCare, the_own_bytes_of_an_image_come_free_when_it_goes) {
  const std::string id = add_image({"torch", "numpy"}, 10);
  (void)add_image({"torch", "timm"}, 2);
  const ImageUsage before = usage_of(id);
  const std::uint64_t all = du({root().string()});
  EXPECT_GT(before.own.count, k_large);
  EXPECT_LT(before.own.count, 2 * k_large);
  const PruneResult result = pruned({.unused_for = std::chrono::hours(24 * 5)});
  EXPECT_THAT(result.image_ids, ElementsAre(id));
  EXPECT_EQ(result.freed, before.own);
  EXPECT_EQ(du({root().string()}), all - before.own.count);
  EXPECT_EQ(result.size.count, du({root().string()}));
}

TEST_F(StoreCare, what_has_a_hard_link_outside_of_the_store_is_not_told_as_freed) {
  const std::string id = add_image({"torch"}, 10);
  const std::uint64_t own = usage_of(id).own.count;
  fs::create_hard_link(store().wheel(base::sha256_hex("torch")) / "site/torch", m_folder / "elsewhere");
  EXPECT_LT(usage_of(id).own.count, own - k_large + 1);
  EXPECT_LT(pruned({}).freed.count, own - k_large + 1);
}

TEST_F(StoreCare, the_least_recently_used_images_go_until_the_store_is_small_enough) {
  const std::string old = add_image({"a"}, 30), middle = add_image({"b"}, 20), young = add_image({"c"}, 10);
  const std::uint64_t all = disk_usage(root())->total.count;
  EXPECT_THAT(pruned({.keep = Bytes{all}}).image_ids, IsEmpty());
  EXPECT_THAT(pruned({.keep = Bytes{all - 1}}).image_ids, ElementsAre(old));
  const PruneResult result = pruned({.keep = Bytes{all - k_large - k_large / 2}});
  EXPECT_THAT(result.image_ids, ElementsAre(middle));
  EXPECT_LE(du({root().string()}), all - k_large - k_large / 2);
  EXPECT_TRUE(fs::exists(store().image(young)));
  EXPECT_TRUE(fs::exists(root() / "bases" / base_digest));
}

TEST_F(StoreCare, what_no_image_needs_goes_before_any_image) {
  const std::string id = add_image({"a"}, 30);
  (void)add_wheel("nobody has it");
  const std::uint64_t all = disk_usage(root())->total.count;
  EXPECT_GT(disk_usage(root())->unneeded.count, k_large);
  const PruneResult result = pruned({.keep = Bytes{all - k_large}});
  EXPECT_EQ(result.wheels, 1);
  EXPECT_THAT(result.image_ids, IsEmpty());
  EXPECT_TRUE(fs::exists(store().image(id)));
}

TEST_F(StoreCare, either_reason_is_enough_for_an_image_to_go) {
  const std::string old = add_image({"a"}, 30), middle = add_image({"b"}, 20), young = add_image({"c"}, 1);
  const std::uint64_t all = disk_usage(root())->total.count;
  // By age the old one goes; by size one more has to.
  const PruneOptions options{.unused_for = std::chrono::hours(24 * 25), .keep = Bytes{all - k_large - k_large / 2}};
  EXPECT_THAT(pruned(options).image_ids, ElementsAre(old, middle));
  EXPECT_TRUE(fs::exists(store().image(young)));
}

TEST_F(StoreCare, keeping_nothing_still_keeps_live_images_and_those_used_moments_ago) {
  const std::string live = add_image({"a"}, 30), fresh = add_image({"b"}, 0), gone = add_image({"c"}, 10);
  touch_image(store(), fresh);
  const PruneResult result = pruned({.keep_images = {live}, .keep = Bytes{0}});
  EXPECT_THAT(result.image_ids, ElementsAre(gone));
  for (const std::string& id : {live, fresh}) EXPECT_TRUE(fs::exists(store().image(id) / "manifest.json"));
  for (const char* name : {"a", "b"}) EXPECT_TRUE(store().has_wheel(base::sha256_hex(name))) << name;
  EXPECT_FALSE(store().has_wheel(base::sha256_hex("c")));
  EXPECT_TRUE(fs::exists(root() / "bases" / base_digest));
}

TEST_F(StoreCare, an_image_goes_only_after_those_that_stand_on_it) {
  const std::string below = add_image({"a"}, 30);
  const std::string above = add_image({"mine"}, 20, below);
  EXPECT_THAT(pruned({.keep_images = {above}, .keep = Bytes{0}}).image_ids, IsEmpty());
  EXPECT_THAT(pruned({.unused_for = std::chrono::hours(24 * 25)}).image_ids, IsEmpty());
  used(below, 20);
  EXPECT_THAT(pruned({.keep = Bytes{0}}).image_ids, ElementsAre(above, below));
}

TEST_F(StoreCare, a_base_goes_with_the_last_image_that_needs_it) {
  (void)add_image({"a"}, 30);
  const std::string first = base_digest;
  base_digest = add_base("two");
  (void)add_image({"b"}, 1);
  EXPECT_EQ(pruned({.unused_for = std::chrono::hours(24 * 25)}).bases, 1);
  EXPECT_FALSE(fs::exists(root() / "bases" / first));
  EXPECT_FALSE(fs::exists(root() / "bases" / ("recipe-" + base::sha256_hex(first))));
  EXPECT_TRUE(fs::exists(root() / "bases" / base_digest));
}

TEST_F(StoreCare, only_telling_removes_nothing_and_tells_what_removing_would) {
  const std::string old = add_image({"a", "b"}, 30), young = add_image({"b", "c"}, 20);
  const auto before = snapshot();
  const auto read_long_ago = [&] {  // reading is using, also the snapshot's
    used(old, 30);
    used(young, 20);
  };
  read_long_ago();
  PruneOptions options{.keep = Bytes{k_large}, .mode = PruneMode::only_tell};
  const PruneResult told = pruned(options);
  EXPECT_EQ(snapshot(), before);
  read_long_ago();
  options.mode = PruneMode::remove;
  const PruneResult done = pruned(options);
  EXPECT_EQ(told.image_ids, done.image_ids);
  EXPECT_EQ(told.freed, done.freed);
  EXPECT_EQ(told.size, done.size);
  EXPECT_GT(done.wheels, 0);
}

}  // namespace
}  // namespace startrail::image::testing
