#include "run/snapshot.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "run/durable.hpp"
#include "run/temporary_folder.hpp"

namespace startrail::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

void git(const fs::path& folder, std::vector<std::string> arguments) {
  std::vector<std::string> argv{"git",
                                "-C",
                                folder.string(),
                                "-c",
                                "user.name=Ada",
                                "-c",
                                "user.email=ada@example.org",
                                "-c",
                                "init.defaultBranch=main",
                                "-c",
                                "protocol.file.allow=always"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const auto result = base::run_process({.argv = argv});
  ASSERT_TRUE(result && result->succeeded()) << (result ? result->errors : result.error().message);
}

class Snapshots : public testing::Test {
 protected:
  Snapshots() { fs::create_directories(code); }
  Snapshot take(const SnapshotLimits& limits = {}) { return take_snapshot(code, snapshots, limits).value(); }
  std::vector<std::string> names(const Snapshot& snapshot) {
    std::vector<std::string> result;
    const Json manifest = snapshot_manifest(snapshots, snapshot.id).value();
    for (const auto& [path, digest] : manifest.at("files").items()) result.push_back(path);
    for (const auto& [path, target] : manifest.at("links").items()) result.push_back(path);
    return result;
  }
  TemporaryFolder folder;
  fs::path code = folder / "my code";
  fs::path snapshots = folder / "snapshots";
};

TEST_F(Snapshots, a_folder_comes_back_as_it_was) {
  write_test_file(code / "train.py", "print('hi')\n");
  write_test_file(code / "empty.txt", "");
  write_test_file(code / "data/größe\n2 .bin", std::string("\0\1\2", 3));
  write_test_file(code / "run.sh", "#!/bin/sh\n");
  ::chmod((code / "run.sh").c_str(), 0755);
  fs::create_symlink("train.py", code / "link.py");
  fs::create_symlink("/nonexistent/place", code / "data/dangling");
  const Snapshot snapshot = take();
  EXPECT_EQ(snapshot.files, 6U);
  EXPECT_THAT(snapshot.omitted, IsEmpty());

  const fs::path back = folder / "back";
  ASSERT_TRUE(restore_snapshot(snapshots, snapshot.id, back));
  EXPECT_EQ(base::read_file(back / "train.py").value(), "print('hi')\n");
  EXPECT_EQ(base::read_file(back / "empty.txt").value(), "");
  EXPECT_EQ(base::read_file(back / "data/größe\n2 .bin").value(), std::string("\0\1\2", 3));
  EXPECT_EQ(fs::read_symlink(back / "link.py"), "train.py");
  EXPECT_EQ(fs::read_symlink(back / "data/dangling"), "/nonexistent/place");
  EXPECT_EQ(::access((back / "run.sh").c_str(), X_OK), 0);
  EXPECT_EQ(take_snapshot(back, snapshots, {})->id, snapshot.id) << "the same content has the same name";
}

TEST_F(Snapshots, caches_environments_and_git_itself_are_left_out_without_a_repository) {
  write_test_file(code / "train.py", "1");
  write_test_file(code / "sub/keep.txt", "1");
  for (const char* skipped : {"__pycache__/train.cpython-311.pyc", ".venv/lib/x.py", "node_modules/x.js", "old.pyc",
                              "my-env/pyvenv.cfg", "my-env/lib/y.py", ".cache/z"})
    write_test_file(code / skipped, "1");
  EXPECT_THAT(names(take()), UnorderedElementsAre("train.py", "sub/keep.txt"));
}

TEST_F(Snapshots, a_repository_decides_by_its_ignore_rules) {
  git(code, {"init", "-q"});
  write_test_file(code / ".gitignore", "*.ckpt\nout/\n");
  write_test_file(code / "tracked.py", "1");
  write_test_file(code / "new file.py", "2");
  write_test_file(code / "model.ckpt", "3");
  write_test_file(code / "out/x", "4");
  write_test_file(code / "deleted.py", "5");
  git(code, {"add", "tracked.py", "deleted.py"});
  fs::remove(code / "deleted.py");
  const Snapshot snapshot = take();
  EXPECT_THAT(names(snapshot), UnorderedElementsAre(".gitignore", "tracked.py", "new file.py"));
  EXPECT_THAT(snapshot.omitted, IsEmpty()) << "ignored and deleted files are no omissions";
}

TEST_F(Snapshots, a_folder_inside_a_repository_holds_only_its_own_files) {
  git(code, {"init", "-q"});
  write_test_file(code / "elsewhere.py", "1");
  write_test_file(code / "sub/train.py", "1");
  const Snapshot snapshot = take_snapshot(code / "sub", snapshots, {}).value();
  EXPECT_THAT(names(snapshot), ElementsAre("train.py"));
}

TEST_F(Snapshots, submodules_and_nested_repositories_are_part_of_it) {
  write_test_file(folder / "library/lib.py", "1");
  git(folder / "library", {"init", "-q"});
  git(folder / "library", {"add", "."});
  git(folder / "library", {"commit", "-q", "-m", "x"});
  git(code, {"init", "-q"});
  git(code, {"submodule", "-q", "add", (folder / "library").string(), "sub"});
  write_test_file(code / "nested/n.py", "1");
  git(code / "nested", {"init", "-q"});
  EXPECT_THAT(names(take()), UnorderedElementsAre(".gitmodules", "sub/lib.py", "nested/n.py"));
}

TEST_F(Snapshots, a_folder_that_its_repository_ignores_altogether_is_walked) {
  git(folder.path(), {"init", "-q"});
  write_test_file(folder / ".gitignore", "*\n");
  write_test_file(code / "train.py", "1");
  EXPECT_THAT(names(take()), ElementsAre("train.py"));
}

TEST_F(Snapshots, a_repository_of_somebody_else_still_decides) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make one";
  git(code, {"init", "-q"});
  write_test_file(code / ".gitignore", "secret\n");
  write_test_file(code / "secret", "1");
  for (const auto& entry : fs::recursive_directory_iterator(code))
    ASSERT_EQ(::lchown(entry.path().c_str(), 1234, 1234), 0);
  ASSERT_EQ(::chown(code.c_str(), 1234, 1234), 0);
  EXPECT_THAT(names(take()), ElementsAre(".gitignore"));
}

TEST_F(Snapshots, a_file_over_the_cap_costs_nothing_and_is_listed) {
  write_test_file(code / "train.py", "1");
  write_test_file(code / "weights.bin", "");
  ASSERT_EQ(::truncate((code / "weights.bin").c_str(), 4LL << 30U), 0);
  const auto start = std::chrono::steady_clock::now();
  const Snapshot snapshot = take();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_THAT(names(snapshot), ElementsAre("train.py"));
  EXPECT_THAT(snapshot.omitted, ElementsAre("weights.bin (4 GiB: over the 50 MiB file cap)"));
}

TEST_F(Snapshots, the_total_cap_takes_small_files_first) {
  write_test_file(code / "a-data.bin", std::string(800, 'd'));
  write_test_file(code / "train.py", "small");
  write_test_file(code / "z.py", "small too");
  const Snapshot snapshot = take({.per_file = {1000}, .total = {100}});
  EXPECT_THAT(names(snapshot), UnorderedElementsAre("train.py", "z.py"));
  ASSERT_EQ(snapshot.omitted.size(), 1U);
  EXPECT_THAT(snapshot.omitted[0], HasSubstr("a-data.bin (800 B: over the 100 B cap of the whole snapshot)"));
}

TEST_F(Snapshots, what_is_no_file_is_listed_and_never_opened) {
  write_test_file(code / "train.py", "1");
  ASSERT_EQ(::mkfifo((code / "pipe").c_str(), 0644), 0);
  write_test_file(code /
                      "bad\xff"
                      "name",
                  "1");
  const Snapshot snapshot = take();
  EXPECT_THAT(names(snapshot), ElementsAre("train.py"));
  EXPECT_THAT(snapshot.omitted, ElementsAre("bad\\xffname (its name is not UTF-8)", "pipe (not a regular file)"));
}

TEST_F(Snapshots, unreadable_files_and_folders_are_omissions) {
  write_test_file(code / "train.py", "1");
  write_test_file(code / "secret.key", "1");
  write_test_file(code / "closed/x", "1");
  ::chmod((code / "secret.key").c_str(), 0);
  ::chmod((code / "closed").c_str(), 0);
  // Root reads everything, so the snapshot is taken by somebody else.
  const bool as_root = ::geteuid() == 0;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (as_root && ::setuid(1234) != 0) ::_exit(9);
    const auto snapshot = take_snapshot(code, snapshots, {});
    const bool good = snapshot && snapshot->files == 1 && snapshot->omitted.size() == 2 &&
                      snapshot->omitted[0] == "closed (Permission denied)" &&
                      snapshot->omitted[1].find("secret.key (1 B: permission denied)") == 0;
    if (snapshot && !good)
      for (const auto& omission : snapshot->omitted) std::fprintf(stderr, "%s\n", omission.c_str());
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ::chmod((code / "closed").c_str(), 0755);
}

TEST_F(Snapshots, a_folder_that_is_not_there_is_an_error) {
  const auto refused = take_snapshot(folder / "nowhere", snapshots, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_found);
}

void make_old(const fs::path& file) {
  const timespec old[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ::utimensat(AT_FDCWD, file.c_str(), old, 0);
}

TEST_F(Snapshots, a_changed_file_is_noticed_even_with_its_old_time_and_size) {
  write_test_file(code / "train.py", "aaaa");
  make_old(code / "train.py");
  const Snapshot before = take();
  ::usleep(2'200'000);  // past the moment for which no stamp is trusted
  EXPECT_EQ(take().id, before.id);
  const auto fd = base::open_file(code / "train.py", O_WRONLY).value();
  ASSERT_EQ(::pwrite(fd.get(), "bbbb", 4, 0), 4);
  make_old(code / "train.py");
  EXPECT_NE(take().id, before.id);
}

TEST_F(Snapshots, an_unchanged_file_is_not_read_again) {
  write_test_file(code / "a.py", "aaaa");
  write_test_file(code / "b.py", "bbbb");
  ::usleep(2'200'000);
  take();
  // Were a.py read, its own digest would come out instead of the one put into the memory.
  const fs::path memory = fs::directory_iterator(snapshots / "cache")->path();
  std::string content = base::read_file(memory).value();
  content.replace(content.find(base::sha256_hex("aaaa")), 64, base::sha256_hex("bbbb"));
  write_test_file(memory, content);
  EXPECT_EQ(snapshot_manifest(snapshots, take().id)->at("files").at("a.py"), base::sha256_hex("bbbb"));
}

TEST_F(Snapshots, a_damaged_digest_memory_is_ignored) {
  write_test_file(code / "train.py", "aaaa");
  ::usleep(2'200'000);
  const Snapshot before = take();
  for (const std::string& damage : {std::string("nonsense"), std::string("startrail digests 1\nabc\0", 24)}) {
    for (const auto& entry : fs::directory_iterator(snapshots / "cache")) write_test_file(entry.path(), damage);
    EXPECT_EQ(take().id, before.id);
  }
}

TEST_F(Snapshots, an_object_that_went_missing_is_written_again) {
  write_test_file(code / "train.py", "aaaa");
  ::usleep(2'200'000);
  const Snapshot before = take();
  fs::remove_all(snapshots / "objects");
  EXPECT_EQ(take().id, before.id);
  EXPECT_TRUE(restore_snapshot(snapshots, before.id, folder / "back"));
}

TEST_F(Snapshots, a_damaged_object_or_manifest_is_refused) {
  write_test_file(code / "train.py", "aaaa");
  const Snapshot snapshot = take();
  const std::string digest = base::sha256_hex("aaaa");
  const std::string other = base::sha256_hex("bbbb");
  write_test_file(folder / "other/x", "bbbb");
  ASSERT_TRUE(take_snapshot(folder / "other", snapshots, {}));
  fs::copy_file(snapshots / "objects" / other.substr(0, 2) / other,
                snapshots / "objects" / digest.substr(0, 2) / digest, fs::copy_options::overwrite_existing);
  const auto restored = restore_snapshot(snapshots, snapshot.id, folder / "back");
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::corrupt);
  EXPECT_FALSE(fs::exists(folder / "back/train.py"));

  const fs::path manifest = snapshots / "manifests" / (snapshot.id + ".json");
  write_test_file(manifest, base::read_file(manifest).value() + " ");
  EXPECT_EQ(snapshot_manifest(snapshots, snapshot.id).error().code, ErrorCode::corrupt);
}

TEST_F(Snapshots, a_manifest_with_a_path_outside_its_folder_is_refused) {
  for (const char* path : {"../evil", "/etc/evil", "a/../../evil", "", "a//b", "./a"}) {
    const std::string text = base::to_compact_text(
        {{"version", 1}, {"entries", Json::array({Json::array({"link", path, "x"})})}, {"omitted", Json::array()}});
    const std::string id = base::sha256_hex(text);
    write_test_file(snapshots / "manifests" / (id + ".json"), text);
    const auto restored = restore_snapshot(snapshots, id, folder / "back");
    ASSERT_FALSE(restored) << path;
    EXPECT_EQ(restored.error().code, ErrorCode::corrupt) << path;
  }
}

TEST_F(Snapshots, nothing_is_restored_over_existing_files) {
  write_test_file(code / "train.py", "aaaa");
  const Snapshot snapshot = take();
  const auto restored = restore_snapshot(snapshots, snapshot.id, code);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::conflict);
  EXPECT_EQ(restore_snapshot(snapshots, "../../etc", folder / "back").error().code, ErrorCode::not_found);
}

TEST_F(Snapshots, several_at_once_agree_and_leave_no_rubbish) {
  for (int i = 0; i < 200; ++i)
    write_test_file(code / ("f" + std::to_string(i)), std::string(2000, 'a') + std::to_string(i));
  for (int process = 0; process < 4; ++process)
    if (::fork() == 0) ::_exit(take_snapshot(code, snapshots, {}) ? 0 : 1);
  for (int process = 0; process < 4; ++process) {
    int status = -1;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  const Snapshot snapshot = take();
  ASSERT_TRUE(restore_snapshot(snapshots, snapshot.id, folder / "back"));
  EXPECT_EQ(base::read_file(folder / "back/f199").value(), std::string(2000, 'a') + "199");
  for (const auto& entry : fs::directory_iterator(snapshots / "objects"))
    EXPECT_TRUE(entry.is_directory()) << entry.path();
}

TEST_F(Snapshots, what_the_index_lists_behind_a_symbolic_link_is_not_read_from_there) {
  write_test_file(folder / "outside/secret", "not yours");
  write_test_file(folder / "outside/deep/secret", "not yours");
  git(code, {"init", "-q"});
  write_test_file(code / "train.py", "1");
  write_test_file(code / "data/secret", "1");
  write_test_file(code / "data/deep/secret", "1");
  git(code, {"add", "."});
  fs::remove_all(code / "data");
  fs::create_symlink(folder / "outside", code / "data");
  const Snapshot snapshot = take();
  EXPECT_THAT(names(snapshot), UnorderedElementsAre("train.py", "data"));
  EXPECT_THAT(snapshot.omitted,
              ElementsAre("data/deep/secret (behind a symbolic link)", "data/secret (behind a symbolic link)"));
}

TEST_F(Snapshots, a_submodule_behind_a_symbolic_link_is_not_listed) {
  write_test_file(folder / "library/lib.py", "1");
  git(folder / "library", {"init", "-q"});
  git(folder / "library", {"add", "."});
  git(folder / "library", {"commit", "-q", "-m", "x"});
  git(code, {"init", "-q"});
  git(code, {"submodule", "-q", "add", (folder / "library").string(), "parts/sub"});
  write_test_file(folder / "outside/sub/secret", "not yours");
  fs::remove_all(code / "parts");
  fs::create_symlink(folder / "outside", code / "parts");
  EXPECT_THAT(names(take()), UnorderedElementsAre(".gitmodules", "parts"));
}

TEST_F(Snapshots, an_object_that_a_power_cut_left_empty_is_written_again) {
  write_test_file(code / "train.py", "aaaa");
  ::usleep(2'200'000);
  const Snapshot before = take();
  const std::string digest = base::sha256_hex("aaaa");
  ASSERT_EQ(::truncate((snapshots / "objects" / digest.substr(0, 2) / digest).c_str(), 0), 0);
  ASSERT_EQ(::truncate((snapshots / "manifests" / (before.id + ".json")).c_str(), 0), 0);
  EXPECT_EQ(take().id, before.id);
  ASSERT_TRUE(restore_snapshot(snapshots, before.id, folder / "back"));
  EXPECT_EQ(base::read_file(folder / "back/train.py").value(), "aaaa");
}

TEST_F(Snapshots, an_object_that_was_found_corrupt_comes_back_with_the_next_snapshot) {
  write_test_file(code / "train.py", "aaaa");
  ::usleep(2'200'000);
  const Snapshot snapshot = take();
  const std::string digest = base::sha256_hex("aaaa");
  write_test_file(snapshots / "objects" / digest.substr(0, 2) / digest, "torn");
  EXPECT_EQ(restore_snapshot(snapshots, snapshot.id, folder / "back").error().code, ErrorCode::corrupt);
  EXPECT_EQ(take().id, snapshot.id);
  EXPECT_TRUE(restore_snapshot(snapshots, snapshot.id, folder / "again"));
}

TEST_F(Snapshots, what_was_interrupted_days_ago_is_removed_and_what_is_being_written_is_not) {
  write_test_file(code / "train.py", "aaaa");
  const Snapshot snapshot = take();
  for (const char* old : {"objects/.adding.a1B2c3", "manifests/x.json.a1B2c3"}) {
    write_test_file(snapshots / old, "half");
    make_old(snapshots / old);
  }
  write_test_file(snapshots / "objects/.adding.d4E5f6", "being written");
  make_snapshot_durable(snapshots, snapshot.id);
  EXPECT_FALSE(fs::exists(snapshots / "objects/.adding.a1B2c3"));
  EXPECT_FALSE(fs::exists(snapshots / "manifests/x.json.a1B2c3"));
  EXPECT_TRUE(fs::exists(snapshots / "objects/.adding.d4E5f6"));
  EXPECT_TRUE(restore_snapshot(snapshots, snapshot.id, folder / "back"));
}

}  // namespace
}  // namespace startrail::run
