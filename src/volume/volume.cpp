#include "volume/volume.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/files.hpp"

namespace startrail::volume {
namespace {

using base::Fd;

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

// What stands at `name` in `parent`, whose owner may be another: a link is refused, never followed.
Result<Fd> open_folder(const Fd& parent, const std::string& name, const fs::path& shown) {
  Fd folder(::openat(parent.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.valid()) return folder;
  if (errno == ENOTDIR || errno == ELOOP)
    return fail(base::error(ErrorCode::conflict, fmt::format("{} is not a folder", shown.string()))
                    .with_context("links below a personal volume are not followed: they could lead anywhere")
                    .with_hint(fmt::format("move it away: `mv {0} {0}.old`", shown.string())));
  return fail(base::errno_error(fmt::format("cannot open {}", shown.string()), errno));
}

// Only what was made here, and is still the maker's, changes its owner: the parent's owner may swap names meanwhile.
Result<void> give(const Fd& folder, const Owner& owner, const fs::path& shown) {
  struct stat status{};
  if (::fstat(folder.get(), &status) != 0 || status.st_uid != ::geteuid())
    return fail(ErrorCode::conflict, fmt::format("{} was replaced while it was made", shown.string()));
  if (::fchownat(folder.get(), "", owner.uid, owner.gid, AT_EMPTY_PATH) == 0) return {};
  return fail(base::errno_error(fmt::format("cannot give {} to uid {}", shown.string(), owner.uid), errno));
}

Result<Fd> make_folder(const Fd& parent, const std::string& name, mode_t mode, const std::optional<Owner>& owner,
                       const fs::path& shown) {
  const bool made = ::mkdirat(parent.get(), name.c_str(), mode) == 0;
  if (!made && errno != EEXIST) return fail(base::errno_error(fmt::format("cannot create {}", shown.string()), errno));
  Fd folder = TRY(open_folder(parent, name, shown));
  if (made && owner) TRY(give(folder, *owner, shown));
  return folder;
}

Result<Fd> open_own_folder(const fs::path& folder) {
  TRY(base::make_directories(folder));
  return base::open_file(folder, O_PATH | O_DIRECTORY);
}

// A user's name becomes a folder's name.
Result<std::string> folder_name(const std::string& user) {
  if (user.empty() || user == "." || user == ".." || user.find('/') != std::string::npos)
    return fail(ErrorCode::invalid_input, fmt::format("`{}` can't be a user's name", user));
  return user;
}

// A link to another disk in the place of a user's volume is the doing of whoever owns the volumes, so it holds.
Result<Fd> personal_folder(const fs::path& personal, const std::optional<Owner>& owner) {
  const Fd parent = TRY(open_own_folder(personal.parent_path()));
  std::error_code ignored;
  if (fs::is_symlink(personal, ignored)) return base::open_file(personal, O_PATH | O_DIRECTORY);
  return make_folder(parent, personal.filename().string(), 0700, owner, personal);
}

Result<void> make_folders(const Plan& plan, const fs::path& volumes) {
  constexpr mode_t k_mode = 0755;
  const auto owner = owner_for_new_folders(plan.workspace);
  TRY(base::make_directories(volumes));
  TRY(base::make_directories(plan.datasets));
  const Fd personal = TRY(personal_folder(plan.personal, owner));
  for (const char* name : {"home", "cache"}) TRY(make_folder(personal, name, k_mode, owner, plan.personal / name));
  const fs::path run_folder = plan.outputs.parent_path();
  const Fd runs = TRY(make_folder(personal, "runs", k_mode, owner, run_folder.parent_path()));
  const Fd run = TRY(make_folder(runs, run_folder.filename().string(), k_mode, owner, run_folder));
  for (const fs::path& folder : {plan.outputs, plan.checkpoints})
    TRY(make_folder(run, folder.filename().string(), k_mode, owner, folder));
  const Fd run_directory = TRY(open_own_folder(plan.temp.parent_path()));
  TRY(make_folder(run_directory, plan.temp.filename().string(), 0700, owner, plan.temp));
  return {};
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
