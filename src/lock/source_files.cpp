#include "lock/source_files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/http.hpp"
#include "base/process.hpp"
#include "lock/contained_uv.hpp"
#include "lock/project_copy.hpp"

namespace startrail::lock {
namespace {

constexpr Bytes k_largest_source{1ULL << 30U};

// By hash in the index first, so that a lock made with one mirror works with another; then by its own address.
std::string address_of(const LockedPackage& package) {
  const auto files = index_files(index_configuration().default_index, package.name);
  if (files) {
    const auto found = std::ranges::find(*files, package.artifact.sha256, &Artifact::sha256);
    if (found != files->end()) return found->url;
  }
  return package.artifact.url;
}

Result<std::string> download(const LockedPackage& package) {
  const std::string url = package.kind == PackageKind::archive ? package.artifact.url : address_of(package);
  if (url.empty())
    return fail(ErrorCode::not_found, fmt::format("the package index has no {}", package.artifact.filename));
  const auto response = TRY(
      base::http_get({.url = url, .headers = {}, .timeout = std::chrono::seconds(1800), .limit = k_largest_source}));
  if (response.status == 200) return response.body;
  return fail(ErrorCode::network,
              fmt::format("{} answered {} for {}", base::host_of(url), response.status, package.artifact.filename));
}

Result<void> put_archive(const LockedPackage& package, const SourceBuild& build, const fs::path& file) {
  const bool local = !package.artifact.path.empty();
  const std::string bytes = local ? TRY(base::read_file(build.lock_directory / package.artifact.path, k_largest_source))
                                  : TRY(download(package));
  const std::string found = base::sha256_hex(bytes);
  if (found != package.artifact.sha256)
    return fail(base::error(ErrorCode::hash_mismatch,
                            fmt::format("{} is not the file that the lock names", package.artifact.filename))
                    .with_context(fmt::format("its SHA-256 is {}, the lock has {}", found, package.artifact.sha256)));
  return base::write_file_atomic(file, bytes);
}

Result<void> git(const std::vector<std::string>& words, const LockedPackage& package) {
  base::Command command{.argv = {"git", "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"}};
  command.argv.insert(command.argv.end(), words.begin(), words.end());
  command.environment = base::current_environment();
  command.environment->insert_or_assign("GIT_TERMINAL_PROMPT", "0");
  command.environment->insert_or_assign("GIT_LFS_SKIP_SMUDGE", "1");
  const auto result = TRY(base::run_process(command));
  if (result.succeeded()) return {};
  const std::string address = base::without_credentials(package.vcs_url);
  base::Error reason =
      base::error(ErrorCode::network, fmt::format("git can't fetch {} at {}", address, package.vcs_commit));
  reason.detail = result.errors;
  const auto fatal = result.errors.find("fatal: ");
  if (fatal != std::string::npos)
    reason.with_context(result.errors.substr(fatal + 7, result.errors.find('\n', fatal) - fatal - 7));
  return fail(std::move(reason).with_hint("check that this machine reaches it: git ls-remote " + address));
}

// A server may refuse to give a single commit; then everything is fetched.
Result<void> check_out(const LockedPackage& package, const fs::path& tree) {
  const std::string folder = tree.string();
  TRY(git({"init", "--quiet", "--", folder}, package));
  const auto shallow =
      git({"-C", folder, "fetch", "--quiet", "--depth", "1", "--", package.vcs_url, package.vcs_commit}, package);
  if (!shallow)
    TRY(git({"-C", folder, "fetch", "--quiet", "--tags", "--", package.vcs_url, "+refs/heads/*:refs/remotes/origin/*"},
            package));
  TRY(git({"-C", folder, "checkout", "--quiet", package.vcs_commit, "--"}, package));
  return git({"-C", folder, "submodule", "--quiet", "update", "--init", "--recursive"}, package);
}

}  // namespace

Result<Source> put_source(const LockedPackage& package, const SourceBuild& build, const fs::path& work) {
  const std::string inside = k_work_inside;
  if (package.kind == PackageKind::vcs) {
    TRY(check_out(package, work / "checkout"));
    return Source{.inside = inside + "/checkout", .project = std::nullopt};
  }
  if (package.kind != PackageKind::directory) {
    TRY(put_archive(package, build, work / package.artifact.filename));
    return Source{.inside = inside + "/" + package.artifact.filename, .project = std::nullopt};
  }
  if (package.editable == project::Editable::no) {
    TRY(copy_project(build.lock_directory / package.directory, work / "folder"));
    return Source{.inside = inside + "/folder", .project = std::nullopt};
  }
  // The whole project, where runs see it: the backend writes absolute paths into the wheel.
  TRY(copy_project(build.lock_directory, work / "project"));
  const fs::path tree = (fs::path(k_project_inside) / package.directory).lexically_normal();
  return Source{.inside = tree.string(), .project = work / "project"};
}

}  // namespace startrail::lock
