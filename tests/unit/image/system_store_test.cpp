// A store of another owner: whom it is trusted from, what is taken from it, and that nothing of it is copied.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.hpp"
#include "image/base_system.hpp"
#include "image/image.hpp"
#include "image/image_folder.hpp"
#include "image/store_inventory.hpp"
#include "image/system_store.hpp"
#include "image/trusted_path.hpp"
#include "store_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::HasSubstr;

class SystemStore : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    (void)store();
    (void)*Store::open(theirs());
    ASSERT_EQ(::chmod(m_folder.c_str(), 0755), 0);
    wheel = base::sha256_hex("wheel");
    write(Store::at(theirs()).wheel(wheel) / "meta.json", "{}");
    write(Store::at(theirs()).wheel(wheel) / "site/demo.py", "x = 1\n");
    write(theirs() / "bases" / digest / "root/usr/lib/deep/file", "base");
    write(theirs() / "bases" / digest / "meta.json", R"({"digest": ")" + digest + "\"}");
    write(theirs() / "bases/recipe-r", digest + "\n");
    Manifest manifest{.lock = "l", .python = "3.11", .base_recipe = "r", .base_digest = digest};
    manifest.wheels.push_back({.name = "demo", .sha256 = wheel, .direct_url = {}});
    id = manifest_id(manifest);
    write(image() / "manifest.json", manifest_text(manifest));
    write(image() / "details.json", "{}");
    write(image() / "tree/opt/env/lib/python3.11/site-packages/demo.py", std::string(200'000, '#'));
    use_system_store(theirs());
  }
  void TearDown() override {
    use_system_store({});
    StoreFixture::TearDown();
  }

  [[nodiscard]] fs::path theirs() const { return m_folder / "theirs"; }
  [[nodiscard]] fs::path image() const { return Store::at(theirs()).image(id); }
  static void write(const fs::path& file, const std::string& text) {
    EXPECT_TRUE(base::make_directories(file.parent_path()));
    EXPECT_TRUE(base::write_file_atomic(file, text));
  }
  [[nodiscard]] bool shared() const {
    const auto lock = store().lock("key");
    const auto done = share_image(store(), "key", id);
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    return done && done->done;
  }

  std::string wheel, id;
  const std::string digest = base::sha256_hex("base");
};

TEST_F(SystemStore, an_image_of_it_is_the_users_without_a_copy_of_its_files) {
  ASSERT_TRUE(shared());
  const auto opened = open(root(), id);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_THAT(opened->layers, ::testing::ElementsAre(store().image(id) / "tree", image() / "tree",
                                                     theirs() / "bases" / digest / "root"));
  EXPECT_LT(disk_usage(root())->trees.count, 100'000U);
  EXPECT_TRUE(fs::is_directory(store().image(id) / "tree/usr/lib"));
  EXPECT_FALSE(fs::exists(store().image(id) / "tree/usr/lib/deep"));
  EXPECT_EQ(image_tree(store(), id), image() / "tree");
}

TEST_F(SystemStore, wheels_and_bases_that_only_it_has_are_found_there) {
  EXPECT_TRUE(store().has_wheel(wheel));
  EXPECT_EQ(store().wheel(wheel), Store::at(theirs()).wheel(wheel));
  const auto base = find_base(root(), "r");
  ASSERT_TRUE(base);
  EXPECT_EQ(base->root, theirs() / "bases" / digest / "root");
  write(root() / "wheels" / fmt::format("{}.v1/meta.json", wheel), "{}");
  EXPECT_EQ(store().wheel(wheel).parent_path(), root() / "wheels") << "the own one goes first";
}

TEST_F(SystemStore, one_that_others_can_write_is_not_used) {
  ASSERT_EQ(::chmod(theirs().c_str(), 0777), 0);
  use_system_store(theirs());
  EXPECT_FALSE(shared());
  EXPECT_FALSE(store().has_wheel(wheel));
  EXPECT_FALSE(find_base(root(), "r"));
  ASSERT_TRUE(system_store_refusal());
  EXPECT_THAT(*system_store_refusal(), HasSubstr("can be written by others than its owner"));
}

TEST_F(SystemStore, one_below_a_folder_that_others_can_write_is_not_used) {
  ASSERT_EQ(::chmod(m_folder.c_str(), 0777), 0);
  use_system_store(theirs());
  EXPECT_FALSE(store().has_wheel(wheel));
  EXPECT_TRUE(system_store_refusal());
}

TEST_F(SystemStore, one_file_that_others_can_write_spoils_its_image) {
  ASSERT_EQ(::chmod((image() / "tree/opt/env/lib/python3.11/site-packages/demo.py").c_str(), 0666), 0);
  EXPECT_FALSE(shared());
  EXPECT_FALSE(fs::exists(store().image(id)));
}

TEST_F(SystemStore, what_belongs_to_a_third_user_is_not_used) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  const fs::path file = image() / "tree/opt/env/lib/python3.11/site-packages/demo.py";
  ASSERT_EQ(::chown(file.c_str(), 4321, 4321), 0);
  EXPECT_FALSE(shared());
  ASSERT_EQ(::chown(Store::at(theirs()).wheel(wheel).c_str(), 4321, 4321), 0);
  EXPECT_FALSE(store().has_wheel(wheel));
}

TEST_F(SystemStore, an_image_whose_manifest_was_changed_is_not_taken) {
  write(image() / "manifest.json", *base::read_file(image() / "manifest.json") + " ");
  EXPECT_FALSE(shared());
}

TEST_F(SystemStore, a_shared_image_is_not_opened_once_others_can_write_there) {
  ASSERT_TRUE(shared());
  ASSERT_EQ(::chmod((image() / "tree").c_str(), 0777), 0);
  const auto opened = open(root(), id);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::refused);
}

TEST_F(SystemStore, every_folder_of_a_shared_image_is_the_users_own) {
  write(image() / "tree/opt/env/lib/python3.11/site-packages/deep/er/module.py", "x = 1\n");
  ASSERT_TRUE(shared());
  const fs::path own = store().image(id) / "tree/opt/env/lib/python3.11/site-packages/deep/er";
  EXPECT_TRUE(fs::is_directory(own / "__pycache__"));
  EXPECT_FALSE(fs::exists(own / "module.py"));
}

TEST_F(SystemStore, a_shared_image_that_names_another_store_is_not_opened) {
  ASSERT_TRUE(shared());
  fs::copy(theirs(), m_folder / "others", fs::copy_options::recursive);
  write(store().image(id) / "shared.json", fmt::format(R"({{"store": "{}"}})", (m_folder / "others").string()));
  const auto opened = open(root(), id);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("others is not the system store"));
}

TEST_F(SystemStore, a_shared_image_whose_base_others_can_change_is_not_opened) {
  ASSERT_TRUE(shared());
  ASSERT_EQ(::chmod((theirs() / "bases").c_str(), 0777), 0);
  EXPECT_FALSE(open(root(), id));
}

TEST_F(SystemStore, a_link_on_the_way_that_a_third_user_can_turn_is_not_followed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give links away";
  const fs::path link = m_folder / "link";
  fs::create_symlink("theirs", link);
  EXPECT_TRUE(check_trusted(link / "images"));
  ASSERT_EQ(::lchown(link.c_str(), 4321, 4321), 0);
  const auto trusted = check_trusted(link / "images");
  ASSERT_FALSE(trusted);
  EXPECT_THAT(trusted.error().message, HasSubstr("link belongs to uid 4321"));
}

TEST_F(SystemStore, links_that_lead_in_circles_end) {
  fs::create_symlink("circle", m_folder / "circle");
  EXPECT_FALSE(check_trusted(m_folder / "circle"));
}

TEST_F(SystemStore, nobody_begins_to_hold_what_is_held_alone) {
  const auto alone = hold_alone(image());
  ASSERT_TRUE(alone);
  EXPECT_TRUE(is_held(image()));
}

TEST_F(SystemStore, pruning_the_own_store_leaves_it_alone) {
  ASSERT_TRUE(shared());
  const timespec long_ago[2]{{.tv_sec = 1'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000, .tv_nsec = 0}};
  ::utimensat(AT_FDCWD, (store().image(id) / "used").c_str(), long_ago, 0);
  ::utimensat(AT_FDCWD, store().image(id).c_str(), long_ago, 0);
  base::SilentReporter reporter;
  const auto result = prune(root(), {.everything_unused = true}, reporter);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->images, 1);
  EXPECT_TRUE(fs::exists(image() / "manifest.json"));
  EXPECT_TRUE(Store::at(theirs()).has_wheel(wheel));
}

TEST_F(SystemStore, its_owner_does_not_prune_what_a_user_holds) {
  ASSERT_TRUE(shared());
  ASSERT_TRUE(open(root(), id));  // holds it
  ASSERT_TRUE(is_held(image()));
  base::SilentReporter reporter;
  use_system_store({});
  for (const fs::path& file : {image() / "used", image()}) {
    const timespec long_ago[2]{{.tv_sec = 1'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000, .tv_nsec = 0}};
    ::utimensat(AT_FDCWD, file.c_str(), long_ago, 0);
  }
  EXPECT_EQ(prune(theirs(), {.everything_unused = true}, reporter)->images, 0);
  EXPECT_TRUE(fs::exists(image() / "manifest.json"));
  EXPECT_TRUE(fs::exists(theirs() / "bases" / digest / "root"));
}

}  // namespace
}  // namespace startrail::image::testing
