#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lock/lock.hpp"
#include "lock/lock_text.hpp"

namespace startrail::lock {
namespace {

using testing::HasSubstr;

constexpr const char* k_hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr const char* k_commit = "0123456789abcdef0123456789abcdef01234567";

std::string wheel_entry(const std::string& file) {
  return "{ url = \"https://files.example/" + file + "\", size = 10, hashes = { sha256 = \"" + k_hash + "\" } }";
}

std::string package(const std::string& name, const std::string& rest) {
  return "[[packages]]\nname = \"" + name + "\"\nversion = \"1.0\"\n" + rest + "\n";
}

std::string lock_with(const std::string& packages) {
  return "lock-version = \"1.0\"\ncreated-by = \"uv\"\n" + packages;
}

Result<Lock> read(const std::string& text, const std::string& python = "3.11") {
  return parse_lock(text, "pylock.toml", python);
}

std::string refusal_of(const std::string& text) {
  const auto lock = read(text);
  return lock ? "accepted" : lock.error().message;
}

Lock sample() {
  Lock lock;
  lock.python = "3.11";
  lock.suite = "bookworm";
  lock.base_recipe = k_hash;
  lock.system_packages = {"ffmpeg", "libgl1"};
  lock.framework = "torch";
  lock.framework_version = "2.6.0";
  lock.cuda = "12.4";
  lock.cudnn = "9.1.0.70";
  lock.nccl = "2.21.5";
  lock.driver_floor = "525.60.13";
  lock.architectures = {"5.0", "9.0"};
  lock.inputs = {{.file = "requirements.txt", .sha256 = k_hash}};
  lock.settings_digest = k_hash;
  lock.notes = {"Python 3.8 asked for, \"3.9\" taken"};
  const Artifact artifact{.filename = "a-1.0-py3-none-any.whl",
                          .url = "https://files.example/a-1.0-py3-none-any.whl",
                          .path = "",
                          .size = {123},
                          .sha256 = k_hash};
  lock.packages.push_back({.name = "a", .version = "1.0", .kind = PackageKind::wheel, .artifact = artifact});
  Artifact source = artifact;
  source.filename = "b-1.0.tar.gz";
  source.url = "https://files.example/b-1.0.tar.gz";
  lock.packages.push_back({.name = "b", .version = "1.0", .kind = PackageKind::sdist, .artifact = source});
  lock.packages.push_back({.name = "c",
                           .version = "1.0",
                           .kind = PackageKind::vcs,
                           .vcs_type = "git",
                           .vcs_url = "https://git.example/c.git",
                           .vcs_commit = k_commit,
                           .subdirectory = "python"});
  lock.packages.push_back(
      {.name = "d", .kind = PackageKind::directory, .directory = ".", .editable = project::Editable::yes});
  Artifact archive = source;
  archive.filename = "e-1.0.zip";
  archive.url = "https://files.example/e-1.0.zip";
  lock.packages.push_back(
      {.name = "e", .version = "1.0", .kind = PackageKind::archive, .artifact = archive, .subdirectory = "inner"});
  return lock;
}

TEST(ReadLock, what_is_written_is_read_again) {
  const std::string text = to_toml(sample());
  const auto again = parse_lock(text, "pylock.trail.toml");
  ASSERT_TRUE(again.has_value()) << base::to_text(again.error());
  EXPECT_EQ(to_toml(*again), text);
  EXPECT_EQ(digest(*again), digest(sample()));
  EXPECT_EQ(again->packages.size(), 5U);
  EXPECT_EQ(again->notes, sample().notes);
  EXPECT_EQ(again->packages[2].vcs_commit, k_commit);
  EXPECT_EQ(again->packages[4].subdirectory, "inner");
}

TEST(ReadLock, an_empty_lock_is_a_lock) {
  Lock lock = sample();
  lock.packages.clear();
  const auto again = parse_lock(to_toml(lock), "pylock.trail.toml");
  ASSERT_TRUE(again.has_value()) << base::to_text(again.error());
  EXPECT_TRUE(again->packages.empty());
}

TEST(ReadLock, credentials_are_not_written) {
  Lock lock = sample();
  lock.packages[0].artifact.url = "https://user:secret@files.example/a-1.0-py3-none-any.whl";
  EXPECT_THAT(to_toml(lock), testing::Not(HasSubstr("secret")));
  EXPECT_THAT(to_toml(lock), HasSubstr("https://files.example/a-1.0"));
}

TEST(ReadLock, of_several_wheels_the_best_for_the_python_is_taken) {
  const std::string wheels = "wheels = [" + wheel_entry("numpy-1.0-cp310-cp310-manylinux2014_x86_64.whl") + ", " +
                             wheel_entry("numpy-1.0-py3-none-any.whl") + ", " +
                             wheel_entry("numpy-1.0-cp311-cp311-manylinux2014_x86_64.whl") + ", " +
                             wheel_entry("numpy-1.0-cp311-cp311-win_amd64.whl") + "]";
  const auto lock = read(lock_with(package("numpy", wheels)));
  ASSERT_TRUE(lock.has_value()) << base::to_text(lock.error());
  EXPECT_EQ(lock->packages.at(0).artifact.filename, "numpy-1.0-cp311-cp311-manylinux2014_x86_64.whl");
  EXPECT_EQ(lock->suite, "bookworm");
}

TEST(ReadLock, without_a_wheel_that_fits_the_sdist_is_taken) {
  const std::string sources = "sdist = " + wheel_entry("numpy-1.0.tar.gz") + "\nwheels = [" +
                              wheel_entry("numpy-1.0-cp311-cp311-win_amd64.whl") + "]";
  const auto lock = read(lock_with(package("numpy", sources)));
  ASSERT_TRUE(lock.has_value()) << base::to_text(lock.error());
  EXPECT_EQ(lock->packages.at(0).kind, PackageKind::sdist);
}

TEST(ReadLock, without_any_file_that_fits_the_package_is_named) {
  const std::string wheels = "wheels = [" + wheel_entry("numpy-1.0-cp311-cp311-win_amd64.whl") + "]";
  EXPECT_THAT(refusal_of(lock_with(package("numpy", wheels))),
              HasSubstr("no wheel of numpy 1.0 for Python 3.11 on Linux x86_64"));
}

TEST(ReadLock, markers_of_other_platforms_drop_their_packages) {
  const std::string one = "wheels = [" + wheel_entry("colorama-1.0-py3-none-any.whl") + "]";
  const auto lock = read(lock_with(package("colorama", "marker = \"sys_platform == 'win32'\"\n" + one)));
  ASSERT_TRUE(lock.has_value()) << base::to_text(lock.error());
  EXPECT_TRUE(lock->packages.empty());
}

TEST(ReadLock, markers_choose_between_two_entries_of_one_package) {
  const std::string old_one =
      "marker = \"python_full_version < '3.10'\"\nwheels = [" + wheel_entry("x-1.0-py3-none-any.whl") + "]";
  const std::string new_one =
      "marker = \"python_full_version >= '3.10'\"\nwheels = [" + wheel_entry("x-2.0-py3-none-any.whl") + "]";
  const std::string text = lock_with(package("x", old_one) + package("x", new_one));
  EXPECT_EQ(read(text, "3.9")->packages.at(0).artifact.filename, "x-1.0-py3-none-any.whl");
  EXPECT_EQ(read(text, "3.11")->packages.at(0).artifact.filename, "x-2.0-py3-none-any.whl");
}

TEST(ReadLock, two_entries_of_one_package_for_one_python_are_refused) {
  const std::string one = package("x", "wheels = [" + wheel_entry("x-1.0-py3-none-any.whl") + "]");
  EXPECT_THAT(refusal_of(lock_with(one + one)), HasSubstr("x twice"));
}

TEST(ReadLock, a_wheel_without_a_hash_is_refused_by_name) {
  const std::string text = lock_with(package(
      "numpy", "wheels = [{ url = \"https://files.example/numpy-1.0-py3-none-any.whl\", hashes = { md5 = \"00\" } }]"));
  EXPECT_THAT(refusal_of(text), HasSubstr("numpy"));
  EXPECT_THAT(refusal_of(text), HasSubstr("no sha256"));
}

TEST(ReadLock, file_names_that_are_paths_are_refused) {
  for (const char* name :
       {"../numpy-1.0-py3-none-any.whl", "/etc/numpy-1.0-py3-none-any.whl", "a\\\\b-1.0-py3-none-any.whl", ".."}) {
    const std::string text = lock_with(
        package("numpy", std::string("wheels = [{ name = \"") + name +
                             "\", url = \"https://files.example/x\", hashes = { sha256 = \"" + k_hash + "\" } }]"));
    EXPECT_THAT(refusal_of(text), testing::AnyOf(HasSubstr("no plain file name"), HasSubstr("not a wheel"))) << name;
  }
  const std::string encoded =
      lock_with(package("numpy", "wheels = [" + wheel_entry("..%2fnumpy-1.0-py3-none-any.whl") + "]"));
  EXPECT_THAT(refusal_of(encoded), HasSubstr("no plain file name"));
}

TEST(ReadLock, a_wheel_of_another_project_is_refused) {
  const std::string text = lock_with(package("numpy", "wheels = [" + wheel_entry("evil-1.0-py3-none-any.whl") + "]"));
  EXPECT_THAT(refusal_of(text), HasSubstr("another project than numpy"));
}

TEST(ReadLock, names_versions_and_commits_are_checked) {
  EXPECT_THAT(refusal_of(lock_with(package("../x", "sdist = " + wheel_entry("x-1.0.tar.gz")))),
              HasSubstr("no project name"));
  EXPECT_THAT(
      refusal_of(lock_with("[[packages]]\nname = \"x\"\nversion = \"../1\"\nsdist = " + wheel_entry("x-1.0.tar.gz"))),
      HasSubstr("no version"));
  const std::string vcs = "vcs = { type = \"git\", url = \"https://git.example/x\", commit-id = \"main\" }";
  EXPECT_THAT(refusal_of(lock_with(package("x", vcs))), HasSubstr("not a full commit"));
  const std::string option =
      "vcs = { type = \"git\", url = \"--upload-pack=x\", commit-id = \"" + std::string(k_commit) + "\" }";
  EXPECT_THAT(refusal_of(lock_with(package("x", option))), HasSubstr("begins with '-'"));
  const std::string outside =
      "vcs = { type = \"git\", url = \"https://git.example/x\", subdirectory = \"../..\", commit-id = \"" +
      std::string(k_commit) + "\" }";
  EXPECT_THAT(refusal_of(lock_with(package("x", outside))), HasSubstr("outside of the repository"));
}

TEST(ReadLock, another_lock_version_is_unsupported) {
  const auto lock = read("lock-version = \"2.0\"\npackages = []\n");
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().code, ErrorCode::unsupported);
}

TEST(ReadLock, a_lock_of_other_environments_is_unsupported) {
  const auto lock = read("lock-version = \"1.0\"\nenvironments = [\"sys_platform == 'win32'\"]\npackages = []\n");
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().code, ErrorCode::unsupported);
  EXPECT_FALSE(read("lock-version = \"1.0\"\nrequires-python = \">=3.12\"\npackages = []\n").has_value());
}

TEST(ReadLock, an_error_names_the_line) {
  EXPECT_THAT(refusal_of("lock-version = \"1.0\"\n[[packages]]\nname = 3\n"), HasSubstr("pylock.toml:3"));
}

TEST(ReadLock, garbage_never_crashes_it) {
  const std::string valid = to_toml(sample());
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string text = valid;
    for (unsigned change = 0; change < 1 + random() % 8; ++change) {
      const auto at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random() % 256); break;
        case 1: text.erase(at, random() % 40); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
      }
      if (text.empty()) text = "x";
    }
    (void)read(text);
  }
}

TEST(Digest, addresses_notes_and_inputs_do_not_count) {
  Lock lock = sample();
  lock.packages[0].artifact.url = "https://mirror.example/a-1.0-py3-none-any.whl";
  lock.notes.clear();
  lock.inputs.clear();
  std::ranges::reverse(lock.packages);
  EXPECT_EQ(digest(lock), digest(sample()));
}

TEST(ReadLock, the_places_of_libraries_are_kept_and_no_other_variable) {
  Lock lock = sample();
  lock.environment = {"LD_LIBRARY_PATH={site}/nvidia/cudnn/lib", "XLA_FLAGS=--xla_gpu_cuda_data_dir={site}/x"};
  const auto again = parse_lock(to_toml(lock), "pylock.trail.toml", "3.11");
  ASSERT_TRUE(again) << base::to_text(again.error());
  EXPECT_EQ(again->environment, lock.environment);
  for (const char* foreign : {"LD_PRELOAD=/workspace/x.so", "PATH=/tmp", "LD_LIBRARY_PATH"}) {
    lock.environment = {foreign};
    const auto refused = parse_lock(to_toml(lock), "pylock.trail.toml", "3.11");
    ASSERT_FALSE(refused) << foreign;
    EXPECT_THAT(refused.error().message, HasSubstr("names no library's place"));
  }
}

TEST(Digest, the_places_of_libraries_decide_the_image) {
  Lock lock = sample();
  const std::string without = digest(lock);
  lock.environment = {"LD_LIBRARY_PATH={site}/nvidia/cudnn/lib"};
  EXPECT_NE(digest(lock), without);
}

TEST(Digest, content_counts) {
  const std::string before = digest(sample());
  for (const auto& change : std::vector<std::function<void(Lock&)>>{
           [](Lock& lock) { lock.python = "3.9"; }, [](Lock& lock) { lock.base_recipe = "other"; },
           [](Lock& lock) { lock.system_packages.pop_back(); }, [](Lock& lock) { lock.packages[0].version = "1.1"; },
           [](Lock& lock) { lock.packages[0].artifact.sha256[0] = 'f'; },
           [](Lock& lock) { lock.packages[2].vcs_commit[0] = 'f'; },
           [](Lock& lock) { lock.packages.erase(lock.packages.begin()); }}) {
    Lock lock = sample();
    change(lock);
    EXPECT_NE(digest(lock), before);
  }
}

}  // namespace
}  // namespace startrail::lock
