#include "volume/volume.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/files.hpp"

namespace startrail::volume {
namespace {

struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
};

// Root makes folders for whoever owns the workspace: the container's user stands for that owner in both.
std::optional<Owner> owner_for_new_folders(const fs::path& workspace) {
  struct stat status{};
  if (::geteuid() != 0 || ::stat(workspace.c_str(), &status) != 0) return std::nullopt;
  return Owner{status.st_uid, status.st_gid};
}

Result<void> make_folder(const fs::path& folder, mode_t mode, const std::optional<Owner>& owner) {
  if (::mkdir(folder.c_str(), mode) != 0) {
    if (errno == EEXIST) return base::make_directories(folder, mode);
    return fail(base::errno_error(fmt::format("cannot create {}", folder.string()), errno));
  }
  if (owner && ::chown(folder.c_str(), owner->uid, owner->gid) != 0)
    return fail(base::errno_error(fmt::format("cannot give {} to uid {}", folder.string(), owner->uid), errno));
  return {};
}

// A user's name becomes a folder's name.
Result<std::string> folder_name(const std::string& user) {
  if (user.empty() || user == "." || user == ".." || user.find('/') != std::string::npos)
    return fail(ErrorCode::invalid_input, fmt::format("`{}` can't be a user's name", user));
  return user;
}

Result<void> make_folders(const Plan& plan, const fs::path& volumes) {
  const auto owner = owner_for_new_folders(plan.workspace);
  TRY(base::make_directories(volumes));
  TRY(base::make_directories(plan.datasets));
  TRY(base::make_directories(plan.personal.parent_path()));
  TRY(make_folder(plan.personal, 0700, owner));
  const fs::path run_folder = plan.outputs.parent_path();
  for (const fs::path& folder : {plan.personal / "home", plan.personal / "cache", run_folder.parent_path(), run_folder,
                                 plan.outputs, plan.checkpoints})
    TRY(make_folder(folder, 0755, owner));
  return make_folder(plan.temp, 0700, owner);
}

base::Environment environment(const std::string& run_id, const std::string& user) {
  const std::string personal = k_personal;
  const std::string cache = personal + "/cache";
  const std::string run = personal + "/runs/" + run_id;
  return {
      {"HOME", personal + "/home"},
      {"USER", user},
      {"LOGNAME", user},
      {"TMPDIR", k_temp},
      {"XDG_CACHE_HOME", cache},
      {"HF_HOME", cache + "/huggingface"},
      {"TORCH_HOME", cache + "/torch"},
      {"PIP_CACHE_DIR", cache + "/pip"},
      {"TRITON_CACHE_DIR", cache + "/triton"},
      {"TORCHINDUCTOR_CACHE_DIR", cache + "/inductor"},
      {"MPLCONFIGDIR", cache + "/matplotlib"},
      {"TRAIL_OUTPUT_DIR", run + "/output"},
      {"TRAIL_CHECKPOINT_DIR", run + "/checkpoints"},
  };
}

}  // namespace

Result<Plan> plan(const fs::path& volumes, const fs::path& workspace, const fs::path& run_directory,
                  const std::string& run_id, const std::string& user) {
  const fs::path personal = volumes / "personal" / TRY(folder_name(user));
  std::error_code ignored;
  if (!fs::is_directory(workspace, ignored))
    return fail(base::error(ErrorCode::not_found, fmt::format("the workspace {} is not there", workspace.string()))
                    .with_hint("run from the project's folder, or name it"));
  Plan result{
      .workspace = workspace,
      .datasets = volumes / "datasets",
      .personal = personal,
      .temp = run_directory / "temp",
      .outputs = personal / "runs" / run_id / "output",
      .checkpoints = personal / "runs" / run_id / "checkpoints",
      .environment = environment(run_id, user),
  };
  TRY(make_folders(result, volumes));
  return result;
}

}  // namespace startrail::volume
