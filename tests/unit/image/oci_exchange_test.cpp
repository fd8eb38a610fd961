// An image of ours out of one store and into another: the same image, the same layers.
#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "image/base_system.hpp"
#include "image/image_folder.hpp"
#include "image/making.hpp"
#include "image/oci/archive_sources.hpp"
#include "image/oci/archive_targets.hpp"
#include "image/oci/export_image.hpp"
#include "image/oci/names.hpp"
#include "image/oci/pulled_image.hpp"
#include "oci_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Exchange : public ExchangeFixture {
 protected:
  // A base with a module and bytecode that is only good while its source has one time.
  BaseSystem make_base() {
    const fs::path folder = m_folder / "base";
    const fs::path modules = folder / "root/usr/lib/python3.11";
    EXPECT_TRUE(base::make_directories(modules / "__pycache__"));
    EXPECT_TRUE(base::write_file_atomic(modules / "os.py", "x = 1\n"));
    std::string bytecode(16, '\0');
    const std::uint32_t time = 1'600'000'000;
    std::memcpy(bytecode.data() + 8, &time, sizeof time);
    EXPECT_TRUE(base::write_file_atomic(modules / "__pycache__/os.cpython-311.pyc", bytecode));
    EXPECT_TRUE(base::make_directories(folder / "root/var/lib/dpkg"));
    EXPECT_TRUE(base::write_file_atomic(folder / "root/var/lib/dpkg/status",
                                        "Package: libc6\nArchitecture: amd64\nVersion: 2.36-9+deb12u10\n\n"));
    fs::create_symlink("usr/lib", folder / "root/lib");
    const auto digest = digest_tree(folder / "root");
    EXPECT_TRUE(digest);
    EXPECT_TRUE(base::write_file_atomic(folder / "meta.json", R"({"size": 1, "digest": ")" + digest->sha256 + "\"}"));
    const fs::path place = store().folder("bases") / digest->sha256;
    EXPECT_TRUE(base::make_directories(place.parent_path()));
    fs::rename(folder, place);
    return {
        .recipe = base_recipe("bookworm", {}).digest, .digest = digest->sha256, .root = place / "root", .size = {1}};
  }

  Image make_image() {
    const BaseSystem base = make_base();
    m_base_digest = base.digest;
    Suppliers lent = real_suppliers();
    lent.find_base = [base](const fs::path&, const std::string&) { return base; };
    WheelBuilder small{.name = "small", .version = "1.0"};
    small.add("small/__init__.py", "name = 'small'\n");
    WheelBuilder big{.name = "big", .version = "2.0"};
    big.add("big/__init__.py", "").add("big/data.bin", random_bytes(17U << 20U));
    lock::Lock lock{.python = "3.11",
                    .suite = "bookworm",
                    .base_recipe = base.recipe,
                    .framework = "demo",
                    .framework_version = "1.0"};
    for (const WheelBuilder& wheel : {small, big}) {
      const WheelSource from = source(wheel);
      lock.packages.push_back({.name = from.name,
                               .version = from.version,
                               .kind = lock::PackageKind::wheel,
                               .artifact = {.filename = from.filename,
                                            .url = from.address,
                                            .path = {},
                                            .size = {from.size},
                                            .sha256 = from.sha256}});
    }
    machine::Machine machine;
    machine.cpus = 2;
    auto image = ensure_with(lent, lock, machine, {.store = root(), .lock_directory = m_folder}, m_reporter);
    EXPECT_TRUE(image) << (image ? "" : to_text(image.error()));
    m_lock = std::move(lock);
    return *image;
  }

  static std::string random_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    std::uint32_t state = 1;
    for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24U);
    return bytes;
  }

  // Saved to a file or folder of this name; returns the manifest's digest.
  std::string save(const std::string& id, const std::string& name, ArchiveFormat format, ExportOptions options = {}) {
    const auto target = create_archive(m_folder / name, format, "demo:1");
    EXPECT_TRUE(target);
    const auto manifest = export_image(root(), id, **target, options, m_reporter);
    EXPECT_TRUE(manifest) << (manifest ? "" : to_text(manifest.error()));
    EXPECT_TRUE((*target)->finish());
    return manifest->digest;
  }

  Result<Image> load(const std::string& name, const fs::path& into) {
    const auto archive = TRY(open_archive(m_folder / name, "", m_folder / "scratch"));
    return import_image(into, *archive.source, {.names = archive.names}, m_reporter);
  }

  base::SilentReporter m_reporter;
  lock::Lock m_lock;  // of make_image
  std::string m_base_digest;
};

// Notes what a user would have been told.
struct Notes final : base::Reporter {
  void step(std::string_view) override {}
  void progress(const base::Progress&) override {}
  void note(std::string_view text) override { all += text; }
  void warn(std::string_view) override {}
  std::string all;
};

TEST_F(Exchange, a_lock_takes_the_image_that_was_pulled_for_it_and_says_so) {
  const Image image = make_image();
  save(image.id, "folder", ArchiveFormat::oci_folder);
  const fs::path other = m_folder / "other";
  ASSERT_TRUE(load("folder", other));
  lock::Lock lock = m_lock;
  lock.base_digest = m_base_digest;
  const auto cost = plan(lock, other);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->wheels_missing, 0);
  EXPECT_FALSE(cost->base_missing);
  Notes notes;
  const auto found =
      ensure_with(real_suppliers(), lock, machine::Machine(), {.store = other, .lock_directory = m_folder}, notes);
  ASSERT_TRUE(found) << to_text(found.error());
  EXPECT_EQ(found->id, image.id);
  EXPECT_THAT(notes.all, HasSubstr((m_folder / "folder").string()));
  EXPECT_THAT(entries_of(other / "wheels"), IsEmpty());
}

// Begins an archive of this name in another process, which stays as it is then until it is killed.
pid_t begin_and_stay(const fs::path& name) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto target = create_archive(name, ArchiveFormat::oci_tar, "demo:1");
    if (!target) ::_exit(1);
    for (;;) ::pause();
  }
  const auto at_work = [&] {
    const auto entries = entries_of(name.parent_path());
    return !entries.empty() && is_locked(name.parent_path() / entries.front());
  };
  for (int tries = 0; tries < 500 && !at_work(); ++tries) ::usleep(10'000);
  return child;
}

TEST_F(Exchange, what_a_killed_writer_left_goes_with_the_next_archive_of_that_name_and_a_live_one_s_stays) {
  const Image image = make_image();
  const fs::path folder = m_folder / "archives";
  fs::create_directory(folder);
  const pid_t other = begin_and_stay(folder / "it.tar");
  ASSERT_THAT(entries_of(folder), SizeIs(1)) << "beside the name, not at it";
  save(image.id, "archives/it.tar", ArchiveFormat::oci_tar);
  EXPECT_THAT(entries_of(folder), SizeIs(2)) << "the other one is still at work";
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  save(image.id, "archives/another.tar", ArchiveFormat::oci_tar);
  EXPECT_THAT(entries_of(folder), SizeIs(3)) << "another name's is none of its business";
  save(image.id, "archives/it.tar", ArchiveFormat::oci_tar);
  EXPECT_THAT(entries_of(folder), SizeIs(2));
}

TEST_F(Exchange, an_image_comes_back_as_the_same_image_from_every_kind_of_archive) {
  const Image image = make_image();
  save(image.id, "folder", ArchiveFormat::oci_folder);
  save(image.id, "layout.tar", ArchiveFormat::oci_tar, {.compression = Compression::gzip});
  save(image.id, "docker.tar", ArchiveFormat::docker_tar, {.compression = Compression::none});
  for (const std::string name : {"folder", "layout.tar", "docker.tar"}) {
    const fs::path other = m_folder / ("other-" + name);
    const auto loaded = load(name, other);
    ASSERT_TRUE(loaded) << name << ": " << to_text(loaded.error());
    EXPECT_EQ(loaded->id, image.id) << name;
    EXPECT_EQ(loaded->environment, image.environment);
    EXPECT_EQ(content(loaded->layers.front() / "opt/env/lib/python3.11/site-packages/small/__init__.py"),
              "name = 'small'\n");
    EXPECT_TRUE(fs::is_symlink(loaded->layers.front() / "opt/env/bin/python"));
    EXPECT_THAT(*verify_store(other, m_reporter), IsEmpty()) << name;
    EXPECT_FALSE(fs::exists(other / "wheels") && !fs::is_empty(other / "wheels")) << "nothing of it may become a wheel";
    EXPECT_EQ(open(other, "demo:1")->id, image.id);
  }
}

TEST_F(Exchange, bytecode_of_the_base_stays_good) {
  const Image image = make_image();
  save(image.id, "folder", ArchiveFormat::oci_folder);
  const auto loaded = load("folder", m_folder / "other");
  ASSERT_TRUE(loaded);
  struct stat status{};
  ASSERT_EQ(::stat((loaded->layers.back() / "usr/lib/python3.11/os.py").c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'600'000'000);
}

TEST_F(Exchange, the_digests_do_not_depend_on_the_threads_the_times_or_the_store) {
  const Image image = make_image();
  const std::string one = save(image.id, "one", ArchiveFormat::oci_folder, {.workers = 1});
  ASSERT_TRUE(base::remove_tree(root() / "exported"));
  ASSERT_TRUE(base::make_directories(root() / "exported"));
  const timespec other_time[2]{{.tv_sec = 1'500'000'000, .tv_nsec = 0}, {.tv_sec = 1'500'000'000, .tv_nsec = 0}};
  for (const auto& entry : fs::recursive_directory_iterator(image.layers.back()))
    ::utimensat(AT_FDCWD, entry.path().c_str(), other_time, AT_SYMLINK_NOFOLLOW);
  EXPECT_EQ(save(image.id, "three", ArchiveFormat::oci_folder, {.workers = 3}), one);
  // From the store that it was loaded into, without any wheel.
  const auto loaded = load("one", m_folder / "other");
  ASSERT_TRUE(loaded);
  const auto target = create_archive(m_folder / "again", ArchiveFormat::oci_folder, "demo:1");
  const auto again = export_image(m_folder / "other", loaded->id, **target, {.workers = 2}, m_reporter);
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(again->digest, one);
  const auto layers = [&](const std::string& name, const std::string& digest) {
    std::vector<std::string> found;
    const auto json = base::read_json_file(m_folder / name / "blobs/sha256" / digest.substr(7));
    for (const Json& layer : base::member(*json, "layers")) found.push_back(base::string_at(layer, "digest"));
    return found;
  };
  EXPECT_EQ(layers("again", again->digest), layers("one", one));
  EXPECT_THAT(layers("one", one), SizeIs(3)) << "base, the big wheel, the rest";
}

// Counts what it is given.
class CountingTarget final : public ImageTarget {
 public:
  std::string name() const override { return "counting"; }
  Result<bool> has(const Descriptor& blob) override {
    const std::scoped_lock lock(m_mutex);
    return stored.contains(blob.digest);
  }
  Result<void> put_file(const Descriptor& blob, const fs::path& file) override {
    EXPECT_EQ(fs::file_size(file), blob.size);
    EXPECT_EQ("sha256:" + *base::sha256_file_hex(file), blob.digest);
    const std::scoped_lock lock(m_mutex);
    stored.insert({blob.digest, ""});
    ++files;
    return {};
  }
  Result<void> put_text(const Descriptor& blob, std::string_view text) override {
    stored.insert({blob.digest, std::string(text)});
    return {};
  }
  Result<void> put_manifest(const ManifestText& manifest, Naming) override {
    const Json json = base::parse_json(manifest.text, "").value();
    for (const Json& layer : base::member(json, "layers"))
      EXPECT_TRUE(stored.contains(base::string_at(layer, "digest"))) << "what is referred to comes first";
    return {};
  }
  Result<void> put_referrer(const ManifestText& manifest, const Descriptor& subject, const Descriptor& own) override {
    EXPECT_EQ(base::string_at(base::member(*base::parse_json(manifest.text, ""), "subject"), "digest"), subject.digest);
    referrers.push_back(own.artifact_type);
    return {};
  }
  std::map<std::string, std::string> stored;
  std::vector<std::string> referrers;
  std::atomic<int> files{0};

 private:
  std::mutex m_mutex;
};

TEST_F(Exchange, a_blob_of_a_layout_that_has_other_bytes_of_the_same_length_is_not_there) {
  const auto target = create_archive(m_folder / "layout", ArchiveFormat::oci_folder, "demo:1");
  ASSERT_TRUE(target);
  const Descriptor blob = descriptor_of(k_config_type, "content");
  ASSERT_TRUE((*target)->put_text(blob, "content"));
  EXPECT_TRUE(*(*target)->has(blob));
  ASSERT_TRUE(base::write_file_atomic(m_folder / "layout/blobs/sha256" / blob.digest.substr(7), std::string(7, '\0')));
  EXPECT_FALSE(*(*target)->has(blob));
}

TEST_F(Exchange, what_the_target_has_is_neither_packed_nor_sent_again) {
  const Image image = make_image();
  CountingTarget target;
  ASSERT_TRUE(export_image(root(), image.id, target, {}, m_reporter));
  EXPECT_EQ(target.files, 3);
  // A layer that were packed again would be another one now.
  const fs::path data = image.layers.front() / "opt/env/lib/python3.11/site-packages/big/data.bin";
  ASSERT_TRUE(base::write_file_atomic(data, "something else", 0444));
  ASSERT_TRUE(export_image(root(), image.id, target, {}, m_reporter));
  EXPECT_EQ(target.files, 3);
  EXPECT_THAT(entries_of(root() / "staging"), IsEmpty());
}

TEST_F(Exchange, an_image_tells_what_it_is_made_of_and_from) {
  const Image image = make_image();
  CountingTarget target;
  ASSERT_TRUE(export_image(root(), image.id, target, {}, m_reporter));
  EXPECT_THAT(target.referrers, ElementsAre("application/vnd.cyclonedx+json", "application/vnd.in-toto+json"));
  std::string all;
  for (const auto& [digest, text] : target.stored) all += text;
  EXPECT_THAT(all, HasSubstr("pkg:pypi/small@1.0"));
  EXPECT_THAT(all, HasSubstr("pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=bookworm"));
  EXPECT_THAT(all, HasSubstr("https://slsa.dev/provenance/v1"));
}

TEST_F(Exchange, an_image_whose_base_is_another_than_it_names_is_refused) {
  const Image image = make_image();
  save(image.id, "folder", ArchiveFormat::oci_folder);
  const auto archive = open_archive(m_folder / "folder", "", m_folder);
  ASSERT_TRUE(archive);
  const auto manifest = parse_image_manifest(*archive->source->manifest(""), "");
  Json config = *base::parse_json(*archive->source->small_blob(manifest->config), "config");
  MemorySource forged;
  forged.add_layer(TarBuilder().folder("usr").file("usr/evil", "x").bytes());
  forged.add_layer(TarBuilder().folder("opt").file("opt/env", "x").bytes());
  Json labels = config["config"]["Labels"];
  labels[std::string(k_label_layers)] = layers_digest(forged.diff_ids);
  forged.finish({{"Labels", labels}});
  const fs::path other = m_folder / "other";
  const auto loaded = import_image(other, forged, {}, m_reporter);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::hash_mismatch);
  EXPECT_THAT(entries_of(other / "images"), IsEmpty());
  EXPECT_THAT(entries_of(other / "bases"), IsEmpty());
}

TEST_F(Exchange, an_image_that_others_built_upon_ours_is_not_taken_for_ours) {
  const Image image = make_image();
  save(image.id, "folder", ArchiveFormat::oci_folder);
  const auto archive = open_archive(m_folder / "folder", "", m_folder);
  const auto manifest = parse_image_manifest(*archive->source->manifest(""), "");
  const Json config = *base::parse_json(*archive->source->small_blob(manifest->config), "config");
  MemorySource built;
  built.add_layer(TarBuilder().folder("usr").file("usr/x", "x").bytes());
  built.add_layer(TarBuilder().file("more", "x").bytes());
  built.finish(config["config"]);
  const auto loaded = import_image(m_folder / "other", built, {}, m_reporter);
  ASSERT_TRUE(loaded) << to_text(loaded.error());
  EXPECT_NE(loaded->id, image.id);
  EXPECT_TRUE(loaded->python.empty());
}

TEST_F(Exchange, an_image_of_ours_may_not_name_paths_in_its_labels) {
  const Image image = make_image();
  save(image.id, "folder", ArchiveFormat::oci_folder);
  const auto archive = open_archive(m_folder / "folder", "", m_folder);
  const auto manifest = parse_image_manifest(*archive->source->manifest(""), "");
  const Json config = *base::parse_json(*archive->source->small_blob(manifest->config), "config");
  const auto refused = [&](const std::function<void(Manifest&)>& change) {
    Manifest forged = *read_manifest(store(), image.id);
    change(forged);
    MemorySource source;
    source.add_layer(TarBuilder().file("a", "1").bytes());
    source.add_layer(TarBuilder().file("b", "1").bytes());
    Json labels = config["config"]["Labels"];
    labels[std::string(k_label_manifest)] = manifest_text(forged);
    labels[std::string(k_label_layers)] = layers_digest(source.diff_ids);
    source.finish({{"Labels", labels}});
    const auto loaded = import_image(m_folder / "other", source, {}, m_reporter);
    return !loaded && loaded.error().code == ErrorCode::corrupt && source.opened == 0;
  };
  EXPECT_TRUE(refused([](Manifest& forged) { forged.python = "3.11/../.."; }));
  EXPECT_TRUE(refused([](Manifest& forged) { forged.base_digest = "../../etc"; }));
  EXPECT_TRUE(refused([](Manifest& forged) { forged.wheels.front().sha256 = "../x"; }));
  EXPECT_TRUE(refused([](Manifest& forged) { forged.parent = "../x"; }));
}

TEST_F(Exchange, a_compressed_archive_is_read_as_well) {
  const Image image = make_image();
  save(image.id, "layout.tar", ArchiveFormat::oci_tar);
  for (const Compression compression : {Compression::zstd, Compression::gzip}) {
    const std::string name = compression == Compression::zstd ? "x.tar.zst" : "x.tar.gz";
    ASSERT_TRUE(base::write_file_atomic(m_folder / name, packed(content(m_folder / "layout.tar"), compression)));
    const auto loaded = load(name, m_folder / ("other" + name));
    ASSERT_TRUE(loaded) << to_text(loaded.error());
    EXPECT_EQ(loaded->id, image.id);
  }
}

TEST_F(Exchange, a_foreign_image_goes_on_as_it_came) {
  MemorySource source;
  source.add_layer(TarBuilder().folder("d").file("d/a", "1").file("d/b", "2").hard_link("d/c", "d/a").bytes());
  source.add_layer(TarBuilder().file("d/.wh.b", "").symlink("l", "d").bytes());
  source.finish({{"Env", {"A=1"}}, {"Labels", {{"theirs", "x"}}}});
  const auto image = import(source);
  ASSERT_TRUE(image) << to_text(image.error());
  save(image->id, "folder", ArchiveFormat::oci_folder);
  const auto loaded = load("folder", m_folder / "other");
  ASSERT_TRUE(loaded) << to_text(loaded.error());
  EXPECT_EQ(loaded->environment, image->environment);
  EXPECT_EQ(content(loaded->layers.front() / "d/c"), "1");
  EXPECT_FALSE(fs::exists(loaded->layers.front() / "d/b"));
  EXPECT_TRUE(fs::is_symlink(loaded->layers.front() / "l"));
}

TEST_F(Exchange, a_root_filesystem_alone_becomes_an_image) {
  const std::string tar = TarBuilder().folder("bin").file("bin/hello", "#!/bin/sh\n", 0755).bytes();
  ASSERT_TRUE(base::write_file_atomic(m_folder / "rootfs.tar.gz", packed(tar, Compression::gzip)));
  const auto source = open_root_filesystem(m_folder / "rootfs.tar.gz", m_reporter);
  ASSERT_TRUE(source) << to_text(source.error());
  const auto image = import_image(root(), **source, {.names = {"mine"}}, m_reporter);
  ASSERT_TRUE(image) << to_text(image.error());
  EXPECT_EQ(content(open(root(), "mine")->layers.front() / "bin/hello"), "#!/bin/sh\n");
}

TEST_F(Exchange, a_file_that_is_no_image_is_refused_with_a_way_out) {
  ASSERT_TRUE(base::write_file_atomic(m_folder / "rootfs.tar", TarBuilder().file("a", "1").bytes()));
  const auto archive = open_archive(m_folder / "rootfs.tar", "", m_folder);
  ASSERT_FALSE(archive);
  EXPECT_THAT(archive.error().hints.front(), HasSubstr("trail image import"));
}

TEST_F(Exchange, a_folder_that_is_no_layout_is_not_written_into) {
  ASSERT_TRUE(base::make_directories(m_folder / "mine"));
  ASSERT_TRUE(base::write_file_atomic(m_folder / "mine/thesis.txt", "x"));
  const auto target = create_archive(m_folder / "mine", ArchiveFormat::oci_folder, "demo:1");
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code, ErrorCode::conflict);
}

}  // namespace
}  // namespace startrail::image::testing
