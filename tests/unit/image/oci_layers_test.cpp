// Layers from elsewhere: laid over each other by the rules of OCI, and refused where they mean harm.
#include <fcntl.h>
#include <sys/stat.h>

#include "image/base_system.hpp"
#include "image/oci/layer_contents.hpp"
#include "image/oci/merged_tree.hpp"
#include "image/oci/names.hpp"
#include "image/oci/unpack_layer.hpp"
#include "image/tree_listing.hpp"
#include "oci_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Layers : public ExchangeFixture {
 protected:
  // The tree of an image of these layers, bottom first.
  fs::path laid(const std::vector<TarBuilder>& layers) {
    MemorySource source;
    for (const TarBuilder& layer : layers) source.add_layer(layer.bytes());
    source.finish();
    const auto image = import(source);
    EXPECT_TRUE(image) << (image ? "" : to_text(image.error()));
    EXPECT_THAT(faults(), IsEmpty());
    return image ? image->layers.front() : fs::path();
  }
  // Refused, with the name of what is wrong in its message, and nothing of it in the store.
  void refused(const std::string& tar, ErrorCode code, const std::string& says) {
    const auto image = import_layer(tar);
    ASSERT_FALSE(image) << says;
    EXPECT_EQ(image.error().code, code) << to_text(image.error());
    EXPECT_THAT(image.error().message, HasSubstr(says));
    EXPECT_THAT(entries_of(store().folder("layers")), IsEmpty());
    EXPECT_THAT(entries_of(store().folder("images")), IsEmpty());
    EXPECT_THAT(entries_of(store().folder("staging")), IsEmpty());
  }
};

TEST_F(Layers, a_later_layer_wins_file_by_file) {
  const fs::path tree = laid({TarBuilder().folder("etc").file("etc/a", "old").file("etc/b", "stays"),
                              TarBuilder().file("etc/a", "new").file("etc/c", "more")});
  EXPECT_EQ(content(tree / "etc/a"), "new");
  EXPECT_EQ(content(tree / "etc/b"), "stays");
  EXPECT_EQ(content(tree / "etc/c"), "more");
}

TEST_F(Layers, a_whiteout_takes_away_what_is_below_and_nothing_of_its_own_layer) {
  const fs::path tree =
      laid({TarBuilder().file("a/gone", "1").file("a/stays", "2").file("b/x", "3"), TarBuilder()
                                                                                        .file("a/.wh.gone", "")
                                                                                        .file("b/y", "own")
                                                                                        .file(".wh.b", "")
                                                                                        .file("a/own", "4")
                                                                                        .file("a/.wh.own", "")});
  EXPECT_FALSE(fs::exists(tree / "a/gone"));
  EXPECT_EQ(content(tree / "a/stays"), "2");
  EXPECT_FALSE(fs::exists(tree / "b/x"));
  EXPECT_EQ(content(tree / "b/y"), "own");
  EXPECT_EQ(content(tree / "a/own"), "4");
}

TEST_F(Layers, an_opaque_folder_hides_all_that_is_below) {
  const fs::path tree = laid({TarBuilder().file("d/old", "1").file("d/sub/old", "2"),
                              TarBuilder().file("d/new", "3").file("d/.wh..wh..opq", "")});
  EXPECT_EQ(content(tree / "d/new"), "3");
  EXPECT_FALSE(fs::exists(tree / "d/old"));
  EXPECT_FALSE(fs::exists(tree / "d/sub"));
}

TEST_F(Layers, the_last_of_several_entries_of_one_name_counts) {
  const fs::path tree = laid({TarBuilder().file("a", "1").file("a", "2").folder("b").file("b", "now a file")});
  EXPECT_EQ(content(tree / "a"), "2");
  EXPECT_EQ(content(tree / "b"), "now a file");
}

TEST_F(Layers, a_path_through_a_link_of_a_lower_layer_stays_in_the_image) {
  const fs::path outside = m_folder / "outside";
  ASSERT_TRUE(base::make_directories(outside));
  const fs::path tree = laid({TarBuilder().folder("usr/lib").symlink("lib", "usr/lib").symlink("abs", outside.string()),
                              TarBuilder().file("lib/new", "1").file("abs/new", "2")});
  EXPECT_EQ(content(tree / "usr/lib/new"), "1");
  EXPECT_TRUE(fs::is_symlink(tree / "lib"));
  EXPECT_TRUE(fs::is_empty(outside)) << "a link of the image led to the host";
  EXPECT_EQ(content(tree / outside.relative_path() / "new"), "2");
}

TEST_F(Layers, a_folder_entry_replaces_a_link) {
  const fs::path tree =
      laid({TarBuilder().folder("usr/lib").symlink("lib", "usr/lib"), TarBuilder().folder("lib").file("lib/x", "1")});
  EXPECT_FALSE(fs::is_symlink(tree / "lib"));
  EXPECT_EQ(content(tree / "lib/x"), "1");
}

TEST_F(Layers, hard_links_share_one_file_across_layers) {
  const fs::path tree = laid({TarBuilder().file("a", "same"), TarBuilder().hard_link("b/c", "a")});
  struct stat one{}, other{};
  ASSERT_EQ(::stat((tree / "a").c_str(), &one), 0);
  ASSERT_EQ(::stat((tree / "b/c").c_str(), &other), 0);
  EXPECT_EQ(one.st_ino, other.st_ino);
}

TEST_F(Layers, nobody_gains_rights_by_a_files_mode) {
  const fs::path tree =
      laid({TarBuilder().folder("tmp", 01777).folder("open", 0777).file("su", "x", 04755).file("w", "x", 0666)});
  const auto mode = [&](const char* name) {
    struct stat status{};
    EXPECT_EQ(::stat((tree / name).c_str(), &status), 0);
    return status.st_mode & 07777U;
  };
  EXPECT_EQ(mode("su"), 0755U);
  EXPECT_EQ(mode("w"), 0644U);
  EXPECT_EQ(mode("open"), 0755U);
  EXPECT_EQ(mode("tmp"), 01777U);
}

TEST_F(Layers, devices_of_dev_are_left_out_and_others_refused) {
  const fs::path tree = laid({TarBuilder().folder("dev").special("dev/null", '3').file("a", "1")});
  EXPECT_FALSE(fs::exists(tree / "dev/null"));
  EXPECT_EQ(content(tree / "a"), "1");
}

TEST_F(Layers, a_device_outside_of_dev_is_refused) {
  refused(TarBuilder().special("etc/disk", '4').bytes(), ErrorCode::unsafe_path, "etc/disk");
}

TEST_F(Layers, names_that_leave_the_image_are_refused) {
  refused(TarBuilder().file("../up", "x").bytes(), ErrorCode::unsafe_path, "../up");
  refused(TarBuilder().file("a/../../up", "x").bytes(), ErrorCode::unsafe_path, "a/../../up");
  refused(TarBuilder().file("/etc/passwd", "x").bytes(), ErrorCode::unsafe_path, "/etc/passwd");
  refused(TarBuilder().file(std::string(300, 'n'), "x").bytes(), ErrorCode::unsafe_path, "too long");
}

TEST_F(Layers, names_that_could_pass_for_several_lines_or_would_be_changed_are_refused) {
  refused(TarBuilder().file("a\nb", "x").bytes(), ErrorCode::unsafe_path, "'a%0Ab' in the layer has a control");
  refused(TarBuilder().symlink("l", "t\nfile 644 z 0").bytes(), ErrorCode::unsafe_path, "'l' is a link to 't%0Afile");
  refused(TarBuilder().hard_link("h", "a\x7f").bytes(), ErrorCode::unsafe_path, "a%7F");
  for (const std::string name : {"caf\xe9", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "cut\xe2\x82"})
    refused(TarBuilder().file(name, "x").bytes(), ErrorCode::unsafe_path, "is no UTF-8");
  const fs::path tree =
      laid({TarBuilder().file("caf\xc3\xa9", "x").file("\xf0\x9f\x9a\x80", "y").symlink("l", "\xe2\x82\xac")});
  EXPECT_EQ(content(tree / "caf\xc3\xa9"), "x");
}

TEST_F(Layers, files_that_nobody_may_read_can_be_read_by_the_stores_owner) {
  const fs::path tree =
      laid({TarBuilder().folder("closed", 0000).file("closed/shadow", "x", 0000).file("exec", "y", 0111)});
  struct stat status{};
  ASSERT_EQ(::stat((tree / "closed/shadow").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0400U);
  ASSERT_EQ(::stat((tree / "closed").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0700U);
  ASSERT_EQ(::stat((tree / "exec").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0511U);
}

TEST_F(Layers, few_bytes_that_name_very_many_folders_are_refused_before_they_fill_the_memory) {
  LayerContents layer{.diff_id = "sha256:" + std::string(64, 'a'), .size = 0, .entries = {}, .skipped = {}};
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += "d/";
  for (int i = 0; i < 9'000; ++i)
    layer.entries.push_back({.path = fmt::format("{}/{}f", i, deep), .digest = {}, .target = {}});
  MergedTree tree;
  const auto applied = tree.apply(layer);
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::no_space);
  EXPECT_THAT(applied.error().message, HasSubstr("sha256:aaaa"));
}

TEST_F(Layers, every_entry_takes_of_the_room_and_not_only_files) {
  MemorySource source;
  source.add_layer(TarBuilder().folder("a").symlink("b", "a").bytes());
  WritingRoom room(1000);
  const auto unpacked =
      unpack_layer(store(), source, {source.layers.front(), source.diff_ids.front()}, room, [](std::uint64_t) {});
  ASSERT_FALSE(unpacked);
  EXPECT_EQ(unpacked.error().code, ErrorCode::no_space);
  EXPECT_THAT(unpacked.error().message, HasSubstr("'b'"));
}

TEST_F(Layers, one_blob_with_two_diff_ids_is_refused) {
  MemorySource source;
  source.add_layer(TarBuilder().file("a", "1").bytes());
  source.layers.push_back(source.layers.front());
  source.diff_ids.push_back("sha256:" + std::string(64, 'b'));
  source.finish();
  const auto image = import(source);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::corrupt);
  EXPECT_EQ(source.opened, 0);
}

TEST_F(Layers, sizes_whose_sum_overflows_are_refused_as_too_large) {
  MemorySource source;
  source.add_layer(TarBuilder().file("a", "1").bytes());
  source.add_layer(TarBuilder().file("b", "1").bytes());
  source.add_layer(TarBuilder().file("c", "1").bytes());
  source.layers[0].size = source.layers[1].size = (1ULL << 63U) - 1;
  source.finish();
  const auto image = import(source);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::no_space);
  EXPECT_EQ(source.opened, 0);
}

TEST_F(Layers, links_with_spaces_in_their_names_have_a_digest_each) {
  const auto line = [](const std::string& path, const std::string& target) {
    return *listing_line({.type = ListedEntry::Type::symlink, .mode = 0777, .path = path, .content = target});
  };
  EXPECT_EQ(line("a", "b"), "link 777 a b\n");
  EXPECT_NE(line("a b", "c"), line("a", "b c"));
  EXPECT_NE(line("a", "3 b c"), line("a 3", "b c"));
}

TEST_F(Layers, a_tree_with_a_control_character_in_a_name_has_no_digest) {
  ASSERT_TRUE(base::make_directories(m_folder / "tree"));
  fs::create_symlink("x\nfile 644 b 0", m_folder / "tree/l");
  const auto digest = digest_tree(m_folder / "tree");
  ASSERT_FALSE(digest);
  EXPECT_EQ(digest.error().code, ErrorCode::unsafe_path);
}

TEST_F(Layers, links_that_leave_the_image_are_refused) {
  refused(TarBuilder().symlink("a/l", "../../up").bytes(), ErrorCode::unsafe_path, "a/l");
  refused(TarBuilder().hard_link("h", "../up").bytes(), ErrorCode::unsafe_path, "../up");
  refused(TarBuilder().hard_link("h", "/etc/passwd").bytes(), ErrorCode::unsafe_path, "/etc/passwd");
}

// These are found when the layers are laid over each other: then the layers are whole, and the image isn't made.
TEST_F(Layers, paths_that_make_no_sense_are_refused) {
  const auto says = [&](const TarBuilder& tar) {
    const auto image = import_layer(tar.bytes());
    EXPECT_THAT(entries_of(store().folder("images")), IsEmpty());
    EXPECT_THAT(entries_of(store().folder("staging")), IsEmpty());
    return image ? "" : image.error().message;
  };
  EXPECT_THAT(says(TarBuilder().file("f", "x").file("f/below", "y")), HasSubstr("f/below"));
  EXPECT_THAT(says(TarBuilder().symlink("a", "b").symlink("b", "a").file("a/x", "y")), HasSubstr("circle"));
  EXPECT_THAT(says(TarBuilder().hard_link("h", "nowhere")), HasSubstr("nowhere"));
  EXPECT_THAT(says(TarBuilder().folder("d").hard_link("h", "d")), HasSubstr("folder"));
}

TEST_F(Layers, a_file_that_claims_more_than_the_disk_holds_is_refused_before_it_is_written) {
  refused(TarBuilder().header({.path = "huge", .size = 1ULL << 49U, .mode = 0644}).bytes(), ErrorCode::no_space,
          "huge");
}

TEST_F(Layers, a_file_that_is_shorter_than_it_claims_ends_the_import) {
  refused(TarBuilder().header({.path = "short", .size = 10'000, .mode = 0644}).raw("little").bytes(),
          ErrorCode::corrupt, "ends early");
}

TEST_F(Layers, a_layer_with_other_bytes_than_its_digest_is_refused_and_reported) {
  for (const Compression compression : {Compression::zstd, Compression::gzip, Compression::none}) {
    MemorySource source;
    source.add_layer(TarBuilder().file("a", std::string(50'000, 'a')).bytes(), compression);
    source.finish();
    std::string& blob = source.blobs.begin()->second;
    blob[blob.size() / 2] = static_cast<char>(blob[blob.size() / 2] ^ 1);
    const auto image = import(source);
    ASSERT_FALSE(image);
    EXPECT_TRUE(image.error().code == ErrorCode::hash_mismatch || image.error().code == ErrorCode::corrupt);
    EXPECT_EQ(source.spoiled_layers, 2) << "it is fetched once more, for it may have been damaged on the way";
    EXPECT_EQ(source.finished_layers, 0);
    EXPECT_THAT(entries_of(store().folder("layers")), IsEmpty());
  }
}

TEST_F(Layers, a_layer_with_another_diff_id_than_its_config_promises_is_refused) {
  MemorySource source;
  source.add_layer(TarBuilder().file("a", "1").bytes());
  source.diff_ids.front() = "sha256:" + base::sha256_hex("another");
  source.finish();
  const auto image = import(source);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::hash_mismatch);
  EXPECT_THAT(entries_of(store().folder("layers")), IsEmpty());
}

TEST_F(Layers, a_layer_that_is_longer_than_its_manifest_says_is_refused) {
  MemorySource source;
  source.add_layer(TarBuilder().file("a", "1").bytes());
  source.layers.front().size -= 1;
  source.finish();
  const auto image = import(source);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::corrupt);
}

TEST_F(Layers, an_image_for_another_architecture_is_refused_with_its_name) {
  MemorySource source;
  source.add_layer(TarBuilder().file("a", "1").bytes());
  source.finish();
  Json config = *base::parse_json(source.config, "config");
  config["architecture"] = "s390x";
  source.config = base::to_compact_text(config);
  const auto image = import(source);
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::unsupported);
  EXPECT_THAT(image.error().message, HasSubstr("linux/s390x"));
  EXPECT_EQ(source.opened, 0) << "no layer needs to be read for that";
}

TEST_F(Layers, what_is_here_is_not_read_again) {
  MemorySource first, second;
  const std::string shared = TarBuilder().file("shared", "1").bytes();
  first.add_layer(shared);
  first.finish();
  second.add_layer(shared);
  second.add_layer(TarBuilder().file("own", "2").bytes());
  second.finish();
  ASSERT_TRUE(import(first));
  ASSERT_TRUE(import(second));
  EXPECT_EQ(second.opened, 1);
  ASSERT_TRUE(import(second));
  EXPECT_EQ(second.opened, 1);
}

TEST_F(Layers, the_environment_of_a_foreign_image_is_its_configs) {
  MemorySource source;
  source.add_layer(TarBuilder().file("bin/x", "1").bytes());
  source.finish({{"Env", {"PATH=/opt/bin", "GREETING=hello=you", "nothing", "=x"}}});
  const auto image = import(source, {"ghcr.io/lab/tool:1"});
  ASSERT_TRUE(image) << to_text(image.error());
  EXPECT_EQ(image->environment, (base::Environment{{"PATH", "/opt/bin"}, {"GREETING", "hello=you"}}));
  EXPECT_EQ(open(root(), "ghcr.io/lab/tool:1")->id, image->id);
  EXPECT_FALSE(wants_background_work(*image, root()) && !image->python.empty());
}

TEST_F(Layers, no_name_can_stand_for_an_id) {
  MemorySource source;
  source.add_layer(TarBuilder().file("a", "1").bytes());
  source.finish();
  const auto image = import(source);
  ASSERT_TRUE(image);
  for (const std::string& name : {image->id, image->id.substr(7), std::string("deadbeef"), std::string("a b"),
                                  std::string("-x"), std::string()}) {
    EXPECT_FALSE(is_image_name(name)) << name;
    EXPECT_FALSE(name_image(store(), {name}, image->id)) << name;
  }
  EXPECT_TRUE(name_image(store(), {"ghcr.io/lab/train:1", "train", "deadbeef:1"}, image->id));
  EXPECT_EQ(open(root(), "deadbeef:1")->id, image->id);
}

TEST_F(Layers, a_changed_byte_of_a_layer_is_found_and_repaired_away) {
  ASSERT_TRUE(import_layer(TarBuilder().file("a", "1").bytes()));
  const fs::path file = entries_of(store().folder("layers")).front() / "files/0";
  ASSERT_TRUE(base::write_file_atomic(file, "2"));
  EXPECT_FALSE(faults().empty());
  base::SilentReporter reporter;
  const timespec long_ago[2]{{.tv_sec = 1'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000, .tv_nsec = 0}};
  for (const fs::path& image : entries_of(store().folder("images")))
    ::utimensat(AT_FDCWD, (image / "used").c_str(), long_ago, 0);
  const auto repaired = repair_store(root(), {}, reporter);
  ASSERT_TRUE(repaired) << to_text(repaired.error());
  EXPECT_THAT(repaired->left, IsEmpty());
  EXPECT_THAT(faults(), IsEmpty());
  EXPECT_THAT(entries_of(store().folder("images")), IsEmpty());
  EXPECT_THAT(entries_of(store().folder("layers")), IsEmpty());
}

TEST_F(Layers, layers_and_names_go_with_the_last_image_that_has_them) {
  MemorySource source;
  source.add_layer(TarBuilder().file("a", "1").bytes());
  source.finish();
  const auto image = import(source, {"tool"});
  ASSERT_TRUE(image);
  base::SilentReporter reporter;
  ASSERT_TRUE(prune(root(), {.keep_images = {image->id}, .everything_unused = true}, reporter));
  EXPECT_FALSE(entries_of(store().folder("layers")).empty());
  const timespec long_ago[2]{{.tv_sec = 1'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000, .tv_nsec = 0}};
  ::utimensat(AT_FDCWD, (store().image(image->id) / "used").c_str(), long_ago, 0);
  ASSERT_TRUE(prune(root(), {.unused_for = std::chrono::seconds(1)}, reporter));
  EXPECT_THAT(entries_of(store().folder("layers")), IsEmpty());
  EXPECT_THAT(image_names(store()), IsEmpty());
}

}  // namespace
}  // namespace startrail::image::testing
