#include "lock/source_wheel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/http.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "lock/build_help.hpp"
#include "lock/contained_uv.hpp"
#include "lock/own_code.hpp"
#include "lock/project_copy.hpp"
#include "lock/source_wheel_script.hpp"
#include "lock/tags.hpp"
#include "lock/uv_failure.hpp"

namespace startrail::lock {
namespace {

constexpr Bytes k_largest_source{1ULL << 30U};
constexpr int k_most_attempts = 6;
// Zip files can't hold earlier times; with it, equal sources give more nearly equal wheels.
constexpr const char* k_source_date = "315532800";

std::string title(const LockedPackage& package) {
  return package.version.empty() ? package.name : package.name + " " + package.version;
}

// A temporary folder that goes with its owner.
class Workbench {
 public:
  static Result<Workbench> make(const fs::path& state_root) {
    const fs::path parent = state_root / "cache" / "builds";
    TRY(base::make_directories(parent));
    return Workbench(TRY(base::make_temporary_directory(parent, "build")));
  }
  Workbench(Workbench&& other) noexcept : m_path(std::exchange(other.m_path, {})) {}
  Workbench& operator=(Workbench&&) = delete;
  ~Workbench() {
    if (!m_path.empty()) (void)base::remove_tree(m_path);
  }
  [[nodiscard]] const fs::path& path() const { return m_path; }

 private:
  explicit Workbench(fs::path path) : m_path(std::move(path)) {}
  fs::path m_path;
};

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

// What a source build sees: where its source lies inside, and the copy of the project to mount, if any.
struct Source {
  std::string inside;
  std::optional<fs::path> project;
};

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

std::set<std::string> extensions_below(const fs::path& tree) {
  std::set<std::string> found;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(tree, ignored), end; !ignored && at != end; at.increment(ignored))
    if (at->path().extension() == ".so") found.insert(at->path().lexically_relative(tree).generic_string());
  return found;
}

Result<fs::path> the_wheel(const LockedPackage& package, const fs::path& folder) {
  std::vector<fs::path> wheels;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored))
    if (at->path().extension() == ".whl" && at->is_regular_file(ignored) && !at->is_symlink(ignored))
      wheels.push_back(at->path());
  const auto name = wheels.size() == 1 ? parse_wheel_name(wheels.front().filename().string())
                                       : fail(ErrorCode::corrupt, "no single wheel");
  if (name && project::normalized_name(name->distribution) == package.name) return wheels.front();
  return fail(ErrorCode::corrupt,
              fmt::format("building {} gave {} instead of one wheel of {}", title(package),
                          wheels.empty() ? "nothing" : wheels.front().filename().string(), package.name));
}

// What the wheel depends on. Of an editable only metadata goes in, but which files that is, only the backend knows.
Result<std::string> content_key(const LockedPackage& package, const SourceBuild& build) {
  std::string content = package.kind == PackageKind::vcs ? package.vcs_commit : package.artifact.sha256;
  if (package.kind == PackageKind::directory)
    content = TRY(tree_digest(package.editable == project::Editable::yes ? build.lock_directory
                                                                         : build.lock_directory / package.directory));
  return base::sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}", package.name, content, package.subdirectory,
                                      package.directory, package.editable == project::Editable::yes))
      .substr(0, 32);
}

class Builder {
 public:
  Builder(const LockedPackage& package, const SourceBuild& build, fs::path target, const machine::Machine& machine,
          Reporter& reporter)
      : m_package(package), m_build(build), m_target(std::move(target)), m_machine(machine), m_reporter(reporter) {}

  Result<fs::path> run() {
    m_reporter.step(fmt::format("building {} from source", title(m_package)));
    m_uv = TRY(ensure_uv(m_build.state_root, m_reporter));
    for (int attempt = 0; attempt < k_most_attempts; ++attempt) {
      const Workbench bench = TRY(Workbench::make(m_build.state_root));
      const auto ended = TRY(run_once(bench.path()));
      if (ended.succeeded()) return take(bench.path());
      const auto failure = parse_build_output(ended.errors + ended.output, m_package.name);
      if (ended.timed_out || !learn(m_help, failure, m_notes)) return refuse(failure, ended);
      m_reporter.note(m_notes.back());
    }
    return fail(ErrorCode::refused, fmt::format("{} can't be built from source", title(m_package)));
  }

 private:
  Result<base::ProcessResult> run_once(const fs::path& work) {
    TRY(base::make_directories(work / "out"));
    TRY(base::make_directories(work / "tmp"));
    const Source source = TRY(put_source(m_package, m_build, work));
    if (source.project) m_extensions_before = extensions_below(*source.project);
    const bool editable = m_package.editable == project::Editable::yes;
    const std::string inside = k_work_inside;
    const auto extra = m_help.requirements.find(m_package.name);
    const Json request{{"source", source.inside},
                       {"subdirectory", m_package.subdirectory},
                       {"hook", editable ? "build_editable" : "build_wheel"},
                       {"output", inside + "/out"},
                       {"uv", k_uv_inside},
                       {"requirements", extra == m_help.requirements.end() ? Json::array() : Json(extra->second)},
                       {"constraints", m_help.constraints}};
    TRY(base::write_file_atomic(work / "request.json", base::to_compact_text(request)));
    TRY(base::write_file_atomic(work / "build_wheel.py", k_source_wheel_script));
    const ContainedCall call{
        .base = m_build.base,
        .uv = m_uv,
        .work = work,
        .cache = m_build.state_root / "cache" / ("uv-" + m_build.suite),
        .project = source.project,
        .certificates = index_configuration().certificates,
        .indexes = m_build.indexes,
        .variables = {{"SOURCE_DATE_EPOCH", k_source_date}, {"MAX_JOBS", std::to_string(std::max(1, m_machine.cpus))}},
        .argv = {"/usr/bin/python3", inside + "/build_wheel.py", inside + "/request.json"}};
    return run_contained_uv(call, m_machine);
  }

  Result<fs::path> take(const fs::path& work) {
    if (m_package.editable == project::Editable::yes && extensions_below(work / "project") != m_extensions_before)
      return fail(
          base::error(
              ErrorCode::refused,
              fmt::format("{} compiles extensions, which an editable install would write into the project folder",
                          m_package.name))
              .with_hint("drop the -e of that line: the package is then built into the image"));
    const fs::path wheel = TRY(the_wheel(m_package, work / "out"));
    TRY(base::make_directories(m_target));
    const fs::path target = m_target / wheel.filename();
    std::error_code failure;
    fs::rename(wheel, target, failure);
    if (failure) return fail(base::errno_error("cannot write " + target.string(), failure.value()));
    return target;
  }

  std::unexpected<Error> refuse(const UvFailure& failure, const base::ProcessResult& ended) const {
    base::Error reason = base::error(
        ErrorCode::refused, ended.timed_out
                                ? fmt::format("building {} from source didn't end within an hour", title(m_package))
                                : fmt::format("{} can't be built from source: {}", title(m_package), failure.reason));
    reason.detail = ended.errors;
    reason.context = m_notes;
    if (const auto advice = advice_for(failure); !advice.empty()) reason.with_hint(advice);
    return fail(std::move(reason));
  }

  const LockedPackage& m_package;
  const SourceBuild& m_build;
  fs::path m_target;
  const machine::Machine& m_machine;
  Reporter& m_reporter;
  fs::path m_uv;
  BuildHelp m_help;
  std::vector<std::string> m_notes;
  std::set<std::string> m_extensions_before;
};

}  // namespace

Result<fs::path> build_source_wheel(const LockedPackage& package, const SourceBuild& build,
                                    const machine::Machine& machine, Reporter& reporter) {
  if (package.kind == PackageKind::wheel) return fail(ErrorCode::internal, package.name + " is a wheel already");
  const fs::path folder = build.state_root / "cache" / "wheels" / build.suite;
  TRY(base::make_directories(folder));
  const bool is_path = !package.import_root.empty();
  const std::string key = is_path ? package.name : TRY(content_key(package, build));
  const auto held = TRY(base::FileLock::acquire(folder / ("." + key + ".lock")));
  if (auto made = the_wheel(package, folder / key)) return made;
  if (is_path) {
    TRY(base::make_directories(folder / key));
    return write_import_path(package, folder / key);
  }
  return Builder(package, build, folder / key, machine, reporter).run();
}

}  // namespace startrail::lock
