#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>

#include "run/temporary_folder.hpp"
#include "volume/volume.hpp"

namespace startrail::volume {
namespace {

class Volumes : public testing::Test {
 protected:
  Volumes() {
    fs::create_directories(folder / "code");
    fs::create_directories(folder / "runs/calm-otter-0001");
  }
  Result<Plan> make(const std::string& user = "ada") {
    return plan(folder / "volumes", folder / "code", folder / "runs/calm-otter-0001", "calm-otter-0001", user);
  }
  TemporaryFolder folder;
};

mode_t mode_of(const fs::path& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

TEST_F(Volumes, every_folder_is_made_and_personal_is_the_users_alone) {
  const Plan made = make().value();
  EXPECT_EQ(made.personal, folder / "volumes/personal/ada");
  EXPECT_EQ(mode_of(made.personal), 0700U);
  EXPECT_EQ(mode_of(made.temp), 0700U);
  for (const auto& path : {made.datasets, made.outputs, made.checkpoints}) EXPECT_TRUE(fs::is_directory(path)) << path;
  EXPECT_TRUE(fs::is_directory(made.personal / "home"));
}

TEST_F(Volumes, the_environment_names_the_same_folders_as_seen_inside) {
  const Plan made = make().value();
  const auto& environment = made.environment;
  EXPECT_EQ(environment.at("TRAIL_OUTPUT_DIR"), "/mnt/personal/runs/calm-otter-0001/output");
  EXPECT_EQ(made.personal / "runs/calm-otter-0001/output", made.outputs);
  EXPECT_EQ(environment.at("TRAIL_CHECKPOINT_DIR"), "/mnt/personal/runs/calm-otter-0001/checkpoints");
  EXPECT_EQ(environment.at("HOME"), "/mnt/personal/home");
  EXPECT_EQ(environment.at("USER"), "ada");
  EXPECT_EQ(environment.at("TMPDIR"), "/mnt/temp");
  for (const char* cache : {"HF_HOME", "TORCH_HOME", "PIP_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"})
    EXPECT_TRUE(environment.at(cache).starts_with("/mnt/personal/cache/")) << cache;
}

TEST_F(Volumes, what_a_run_left_in_personal_survives_the_next_plan) {
  const Plan made = make().value();
  write_test_file(made.personal / "cache/huggingface/model", "weights");
  ::chmod(made.personal.c_str(), 0750);
  ASSERT_TRUE(make());
  EXPECT_EQ(base::read_file(made.personal / "cache/huggingface/model").value(), "weights");
  EXPECT_EQ(mode_of(made.personal), 0750U) << "an existing folder keeps its mode";
}

TEST_F(Volumes, root_makes_personal_folders_for_the_workspaces_owner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can";
  ASSERT_EQ(::chown((folder / "code").c_str(), 4321, 4321), 0);
  const Plan made = make().value();
  for (const auto& path : {made.personal, made.personal / "home", made.outputs, made.temp}) {
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, 4321U) << path;
  }
}

// A run can write to its personal volume; the next one, root's perhaps, makes folders in it.
TEST_F(Volumes, a_link_that_a_run_left_in_its_personal_volume_is_refused_and_not_followed) {
  const Plan made = make().value();
  fs::create_directories(folder / "elsewhere/runs");
  for (const char* name : {"runs", "home", "runs/calm-otter-0001", "runs/calm-otter-0001/output"}) {
    const fs::path kept = folder / "kept";
    fs::rename(made.personal / name, kept);
    fs::create_directory_symlink(folder / "elsewhere", made.personal / name);
    const auto refused = make();
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::conflict);
    EXPECT_NE(refused.error().message.find((made.personal / name).string()), std::string::npos);
    fs::remove(made.personal / name);
    fs::rename(kept, made.personal / name);
  }
  EXPECT_TRUE(fs::is_empty(folder / "elsewhere/runs"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "elsewhere"), {}), 1);
}

TEST_F(Volumes, root_gives_nobody_a_folder_that_a_link_leads_to) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can";
  ASSERT_EQ(::chown((folder / "code").c_str(), 4321, 4321), 0);
  const Plan made = make().value();
  fs::remove_all(made.outputs);
  fs::create_directories(folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", made.outputs);
  ASSERT_FALSE(make());
  struct stat status{};
  ASSERT_EQ(::stat((folder / "elsewhere").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 0U);
}

TEST_F(Volumes, a_volume_on_another_disk_may_be_a_link_of_its_keepers) {
  fs::create_directories(folder / "disk/ada");
  fs::create_directories(folder / "volumes/personal");
  fs::create_directory_symlink(folder / "disk/ada", folder / "volumes/personal/ada");
  ASSERT_TRUE(make());
  EXPECT_TRUE(fs::is_directory(folder / "disk/ada/runs/calm-otter-0001/output"));
}

TEST_F(Volumes, a_users_name_that_is_a_path_is_refused) {
  for (const char* user : {"../ada", "..", "", "a/b"}) {
    const auto refused = make(user);
    ASSERT_FALSE(refused) << user;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_input);
  }
}

TEST_F(Volumes, a_workspace_that_is_gone_is_named) {
  fs::remove_all(folder / "code");
  const auto refused = make();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_found);
  EXPECT_NE(refused.error().message.find((folder / "code").string()), std::string::npos);
}

}  // namespace
}  // namespace startrail::volume
