#include "lock/source_wheel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "lock/build_help.hpp"
#include "lock/contained_uv.hpp"
#include "lock/own_code.hpp"
#include "lock/project_copy.hpp"
#include "lock/source_files.hpp"
#include "lock/source_wheel_script.hpp"
#include "lock/tags.hpp"
#include "lock/torch_build.hpp"
#include "lock/torch_layer.hpp"
#include "lock/uv_failure.hpp"
#include "lock/workbench.hpp"

namespace startrail::lock {
namespace {

constexpr int k_most_attempts = 6;
constexpr std::chrono::minutes k_longest_build{60};
// CUDA code for several architectures on a few cores.
constexpr std::chrono::minutes k_longest_torch_build{8 * 60};
constexpr const char* k_requirements_file = "requires.txt";
// Zip files can't hold earlier times; with it, equal sources give more nearly equal wheels.
constexpr const char* k_source_date = "315532800";

std::string title(const LockedPackage& package) {
  return package.version.empty() ? package.name : package.name + " " + package.version;
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

bool sees_torch(const LockedPackage& package, const SourceBuild& build) {
  return build.lock != nullptr && build.provider != nullptr && is_built_with_torch(*build.lock, package.name);
}

// What the wheel depends on. Of an editable only metadata goes in, but which files that is, only the backend knows.
Result<std::string> content_key(const LockedPackage& package, const SourceBuild& build) {
  std::string content = package.kind == PackageKind::vcs ? package.vcs_commit : package.artifact.sha256;
  if (package.kind == PackageKind::directory)
    content = TRY(tree_digest(package.editable == project::Editable::yes ? build.lock_directory
                                                                         : build.lock_directory / package.directory));
  std::string decides = fmt::format("{}\n{}\n{}\n{}\n{}", package.name, content, package.subdirectory,
                                    package.directory, package.editable == project::Editable::yes);
  if (sees_torch(package, build)) decides += "\n" + TRY(torch_build(*build.lock)).identity;
  return base::sha256_hex(decides).substr(0, 32);
}

class Builder {
 public:
  Builder(const LockedPackage& package, const SourceBuild& build, fs::path target, const machine::Machine& machine,
          Reporter& reporter)
      : m_package(package), m_build(build), m_target(std::move(target)), m_machine(machine), m_reporter(reporter) {}

  Result<fs::path> run() {
    m_reporter.step(fmt::format("building {} from source", title(m_package)));
    m_uv = TRY(ensure_uv(m_build.state_root, m_reporter));
    if (sees_torch(m_package, m_build)) TRY(prepare_torch());
    for (int attempt = 0; attempt < k_most_attempts; ++attempt) {
      const Workbench bench = TRY(Workbench::make(m_build.state_root));
      const auto ended = TRY(run_once(bench.path()));
      if (ended.succeeded()) return take(bench.path());
      const auto failure = parse_build_output(ended.errors + ended.output, m_package.name);
      // Torch is no requirement like others: it comes by the image, which this build didn't get.
      const bool can_help = !ended.timed_out && failure.missing_module != k_torch_module;
      if (!can_help || !learn(m_help, failure, m_notes)) return refuse(failure, ended);
      m_reporter.note(m_notes.back());
    }
    return fail(ErrorCode::refused, fmt::format("{} can't be built from source", title(m_package)));
  }

 private:
  Result<void> prepare_torch() {
    m_torch = TRY(torch_layer(m_package, m_build, m_machine, m_reporter));
    m_help.constraints = m_torch->bounds;
    m_help.requirements[m_package.name] = m_torch->tools;
    if (!m_torch->toolkit.empty())
      m_reporter.step(fmt::format("compiling {} for GPUs of compute capability {}", title(m_package),
                                  m_torch->variables.at("TORCH_CUDA_ARCH_LIST")));
    return {};
  }

  [[nodiscard]] base::Environment variables() const {
    base::Environment all{{"SOURCE_DATE_EPOCH", k_source_date},
                          {"MAX_JOBS", std::to_string(std::max(1, m_machine.cpus))}};
    if (!m_torch) return all;
    for (const auto& [name, value] : m_torch->variables) all.insert_or_assign(name, value);
    return all;
  }

  Result<base::ProcessResult> run_once(const fs::path& work) {
    TRY(base::make_directories(work / "out"));
    TRY(base::make_directories(work / "tmp"));
    const Source source = TRY(put_source(m_package, m_build, work));
    if (source.project) m_extensions_before = extensions_below(*source.project);
    const bool editable = m_package.editable == project::Editable::yes;
    const std::string inside = k_work_inside;
    const auto extra = m_help.requirements.find(m_package.name);
    Json request{{"source", source.inside},
                 {"subdirectory", m_package.subdirectory},
                 {"hook", editable ? "build_editable" : "build_wheel"},
                 {"output", inside + "/out"},
                 {"uv", k_uv_inside},
                 {"requirements", extra == m_help.requirements.end() ? Json::array() : Json(extra->second)},
                 {"constraints", m_help.constraints}};
    if (m_torch) request["image"] = {{"site", m_torch->site}, {"provided", m_torch->provided}};
    TRY(base::write_file_atomic(work / "request.json", base::to_compact_text(request)));
    TRY(base::write_file_atomic(work / "build_wheel.py", k_source_wheel_script));
    ContainedCall call{.base = m_build.base,
                       .uv = m_uv,
                       .work = work,
                       .cache = m_build.state_root / "cache" / ("uv-" + m_build.suite),
                       .project = source.project,
                       .certificates = index_configuration().certificates,
                       .indexes = m_build.indexes,
                       .variables = variables(),
                       .argv = {"/usr/bin/python3", inside + "/build_wheel.py", inside + "/request.json"},
                       .patience = m_torch ? k_longest_torch_build : k_longest_build};
    if (m_torch) call.layers = m_torch->layers;
    if (m_torch && !m_torch->toolkit.empty()) call.shown = {{m_torch->toolkit, k_toolkit_inside}};
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
    if (m_torch) fs::rename(work / "out" / k_requirements_file, m_target / k_requirements_file, failure);
    fs::rename(wheel, target, failure);
    if (failure) return fail(base::errno_error("cannot write " + target.string(), failure.value()));
    return target;
  }

  // Which file, the compiler's own first words, and where the rest can be read.
  std::unexpected<Error> refuse_torch(const UvFailure& failure, const base::ProcessResult& ended) const {
    const std::string words = ended.errors + ended.output;
    const fs::path log = m_build.state_root / "cache" / "builds" / (m_package.name + ".log");
    [[maybe_unused]] const auto kept = base::write_file_atomic(log, words);
    const std::string first = first_compiler_error(words);
    base::Error reason = base::error(ErrorCode::refused, fmt::format("{} can't be compiled: {}", title(m_package),
                                                                     first.empty() ? failure.reason : first));
    reason.detail = ended.errors;
    reason.context = m_notes;
    if (const auto advice = compiler_advice(words); !advice.empty()) reason.with_hint(advice);
    // What a build without the CUDA compiler would be told is no way out here.
    const bool lacks_package = !failure.missing_header.empty() && !failure.missing_header.starts_with("cuda");
    if (const auto advice = advice_for(failure); lacks_package && !advice.empty()) reason.with_hint(advice);
    return fail(std::move(reason).with_hint("what the build said is in " + log.string()));
  }

  std::unexpected<Error> refuse(const UvFailure& failure, const base::ProcessResult& ended) const {
    if (m_torch && !ended.timed_out) return refuse_torch(failure, ended);
    base::Error reason = base::error(
        ErrorCode::refused, ended.timed_out
                                ? fmt::format("building {} from source didn't end within {} hours", title(m_package),
                                              (m_torch ? k_longest_torch_build : k_longest_build).count() / 60)
                                : fmt::format("{} can't be built from source: {}", title(m_package), failure.reason));
    reason.detail = ended.errors;
    reason.context = m_notes;
    if (failure.missing_module == k_torch_module && m_package.editable == project::Editable::yes)
      reason.with_hint("drop the -e of its line: what imports torch while it is built is built into the image");
    else if (const auto advice = advice_for(failure); !advice.empty())
      reason.with_hint(advice);
    return fail(std::move(reason));
  }

  const LockedPackage& m_package;
  const SourceBuild& m_build;
  fs::path m_target;
  const machine::Machine& m_machine;
  Reporter& m_reporter;
  fs::path m_uv;
  BuildHelp m_help;
  std::optional<TorchLayer> m_torch;
  std::vector<std::string> m_notes;
  std::set<std::string> m_extensions_before;
};

}  // namespace

std::vector<std::string> requirements_of_built(const fs::path& wheel) {
  std::vector<std::string> lines;
  const std::string text = base::read_file(wheel.parent_path() / k_requirements_file).value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

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
