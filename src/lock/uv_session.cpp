#include "lock/uv_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "base/document.hpp"
#include "base/files.hpp"
#include "lock/build_help.hpp"
#include "lock/contained_uv.hpp"
#include "lock/project_copy.hpp"
#include "lock/stub_wheel.hpp"
#include "lock/suite.hpp"
#include "lock/undeclared.hpp"
#include "lock/uv_environment.hpp"

namespace startrail::lock {
namespace {

// The name has the form that PEP 751 asks of lock files; uv takes earlier pins from it.
constexpr const char* k_output = "pylock.answer.toml";
constexpr std::size_t k_most_page_fetches = 8;
constexpr const char* k_stubs = "stubs";
constexpr int k_newest_manylinux_of_uv = 40;  // uv 0.13.9 knows none after manylinux_2_40
constexpr std::chrono::minutes k_longest_conversion{2};

std::string joined_lines(const std::vector<std::string>& lines) {
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

// Packages that [tool.uv.sources] ties to an index of their own can't be said in a requirements file.
std::string indexed_project(const project::Requirements& needs, const Request& request, const Loosened& loosened) {
  std::string dependencies;
  std::string sources;
  std::string indexes;
  for (const auto& [name, url] : needs.indexes.package_index) {
    const auto* requirement = request.find(name);
    if (requirement == nullptr || requirement->kind != project::SourceKind::index) continue;
    project::Requirement line = *requirement;
    if (const auto wider = loosened.find(name); wider != loosened.end())
      line.specifier = widened(line.specifier, wider->second);
    dependencies += fmt::format("  {},\n", base::toml_quote(to_pep508(line)));
    sources += fmt::format("{} = {{ index = {} }}\n", base::toml_quote(name), base::toml_quote("of-" + name));
    indexes += fmt::format("[[tool.uv.index]]\nname = {}\nurl = {}\nexplicit = true\n", base::toml_quote("of-" + name),
                           base::toml_quote(url));
  }
  if (dependencies.empty()) return "";
  return fmt::format(
      "[project]\nname = \"input\"\nversion = \"0\"\nrequires-python = \">=3.6\"\ndependencies = [\n{}]\n\n"
      "[tool.uv.sources]\n{}\n{}",
      dependencies, sources, indexes);
}

}  // namespace

struct UvSession::State {
  State(const project::Requirements& read, Request lines, const machine::Machine& host, ResolveOptions how,
        Reporter& listener)
      : needs(read), request(std::move(lines)), machine(host), options(std::move(how)), reporter(listener) {}
  ~State() { (void)base::remove_tree(work); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Result<void> write_files(const Question& question, const fs::path& project);
  [[nodiscard]] std::vector<std::string> arguments(const Question& question, const fs::path& folder) const;
  Result<base::ProcessResult> run_here(const std::vector<std::string>& argv, const fs::path& directory,
                                       std::chrono::seconds patience);
  Result<base::ProcessResult> run_inside(const Question& question, std::vector<std::string> argv);
  Result<fs::path> writable_project();
  Result<Answer> answer_of(const base::ProcessResult& result, const fs::path& seen_work, const fs::path& seen_project);

  const project::Requirements& needs;
  Request request;
  const machine::Machine& machine;
  ResolveOptions options;
  Reporter& reporter;
  fs::path uv, work;
  IndexConfiguration configuration;
  UvIndexes indexes;
  std::optional<fs::path> project_copy;
  std::vector<std::string> notes;
  std::map<std::string, std::optional<std::vector<IndexFile>>> pages;
  bool host_can_resolve = true;  // it has a Python to ask, and git where a requirement needs it
};

Result<void> UvSession::State::write_files(const Question& question, const fs::path& project) {
  const auto write = [&](const char* name, const std::string& text) {
    return base::write_file_atomic(work / name, text);
  };
  auto constraints = request.constraint_lines(question.loosened);
  constraints.insert(constraints.end(), question.bounds.begin(), question.bounds.end());
  TRY(write("requirements.in", joined_lines(request.requirement_lines(project, question.loosened, question.nameless))));
  TRY(write("constraints.txt", joined_lines(constraints)));
  TRY(write("excludes.txt", joined_lines(question.without)));
  TRY(write("build-constraints.txt", joined_lines(question.help.constraints)));
  TRY(write("uv.toml", build_settings(question.help, request.from_elsewhere()) + undeclared_settings()));
  TRY(write("pyproject.toml", indexed_project(needs, request, question.loosened)));
  TRY(base::remove_tree(work / k_stubs));
  TRY(base::make_directories(work / k_stubs));
  for (const auto& [name, version] : question.stubs) TRY(write_stub_wheel(work / k_stubs, name, version));
  // Earlier pins hold unless an upgrade was asked for, or the question is what else there would be.
  std::error_code ignored;
  fs::remove(work / k_output, ignored);
  const fs::path earlier = needs.folder / k_lock_file_name;
  if (options.upgrade || !question.loosened.empty() || !fs::exists(earlier, ignored)) return {};
  if (!read_lock(earlier)) return {};
  return base::write_file_atomic(work / k_output, TRY(base::read_file(earlier)));
}

std::vector<std::string> UvSession::State::arguments(const Question& question, const fs::path& folder) const {
  const auto in = [&](const char* name) { return (folder / name).string(); };
  std::vector<std::string> argv{"pip", "compile", in("requirements.in")};
  std::error_code ignored;
  if (fs::file_size(work / "pyproject.toml", ignored) > 0) argv.push_back(in("pyproject.toml"));
  const int glibc = std::min(glibc_minor_of(question.python.suite), k_newest_manylinux_of_uv);
  for (std::string word :
       {std::string("--format"), std::string("pylock.toml"), std::string("--output-file"), in(k_output),
        std::string("--python-version"), question.python.minor, std::string("--python-platform"),
        fmt::format("x86_64-manylinux_2_{}", glibc), std::string("--constraints"), in("constraints.txt"),
        std::string("--excludes"), in("excludes.txt"), std::string("--no-header"), std::string("--quiet"),
        std::string("--color"), std::string("never")})
    argv.push_back(std::move(word));
  argv.insert(argv.end(), {"--config-file", in("uv.toml")});
  if (question.builds == Builds::forbidden)
    argv.emplace_back("--no-build");
  else
    argv.insert(argv.end(), {"--build-constraints", in("build-constraints.txt")});
  if (!question.stubs.empty()) argv.insert(argv.end(), {"--find-links", in(k_stubs)});
  if (needs.indexes.no_index) argv.emplace_back("--no-index");
  if (needs.indexes.prereleases) argv.insert(argv.end(), {"--prerelease", "allow"});
  return argv;
}

Result<base::ProcessResult> UvSession::State::run_here(const std::vector<std::string>& argv, const fs::path& directory,
                                                       std::chrono::seconds patience) {
  base::Command command;
  command.argv = {uv.string()};
  command.argv.insert(command.argv.end(), argv.begin(), argv.end());
  command.environment = uv_environment(base::current_environment(), indexes, configuration);
  command.environment->insert_or_assign("UV_CACHE_DIR", (options.state_root / "cache/uv").string());
  // Not in the caller's HOME, which may be another's (sudo); no Python is downloaded anyway.
  command.environment->insert_or_assign("UV_PYTHON_INSTALL_DIR", (options.state_root / "tools/python").string());
  command.directory = directory;
  command.timeout = patience;
  return base::run_process(command);
}

// Build code may write beside its sources; the user's folder must not notice.
Result<fs::path> UvSession::State::writable_project() {
  if (project_copy) return *project_copy;
  const fs::path copy = work / "project";
  const auto copied = TRY(copy_project(needs.folder, copy));
  if (!copied.left_out.empty())
    notes.push_back(fmt::format("{} is over 64 MiB and was not shown to build code", copied.left_out.front()));
  project_copy = copy;
  return copy;
}

Result<base::ProcessResult> UvSession::State::run_inside(const Question& question, std::vector<std::string> argv) {
  std::vector<std::string> system_packages;
  for (const auto& package : needs.system_packages) system_packages.push_back(package.value);
  ContainedCall call;
  call.base = TRY(options.base.ensure(question.python.suite, system_packages, reporter));
  call.uv = uv;
  call.work = work;
  call.cache = options.state_root / "cache" / ("uv-" + question.python.suite);
  call.certificates = configuration.certificates;
  call.indexes = indexes;
  call.argv = {k_uv_inside};
  call.argv.insert(call.argv.end(), argv.begin(), argv.end());
  call.argv.insert(call.argv.end(), {"--python", "/usr/bin/python3"});
  if (request.has_local_files()) call.project = TRY(writable_project());
  return run_contained_uv(call, machine);
}

Result<Answer> UvSession::State::answer_of(const base::ProcessResult& result, const fs::path& seen_work,
                                           const fs::path& seen_project) {
  Answer answer{.lock_text = std::nullopt,
                .written_in = seen_work,
                .project = seen_project,
                .failure = {},
                .errors = result.errors};
  if (result.timed_out) {
    answer.failure = {.kind = FailureKind::too_slow, .reason = "uv didn't come to an end in time"};
  } else if (result.succeeded()) {
    answer.lock_text = TRY(base::read_file(work / k_output));
  } else {
    answer.failure = parse_uv_failure(result.errors);
  }
  return answer;
}

UvSession::UvSession(std::unique_ptr<State> state) : m_state(std::move(state)) {}
UvSession::UvSession(UvSession&&) noexcept = default;
UvSession::~UvSession() = default;

Result<UvSession> UvSession::open(const project::Requirements& needs, const catalog::Choice& choice,
                                  const machine::Machine& machine, const ResolveOptions& options, Reporter& reporter) {
  Request request(needs, choice, options.framework, options.framework_origin);
  auto state = std::make_unique<State>(needs, std::move(request), machine, options, reporter);
  state->uv = TRY(ensure_uv(options.state_root, reporter));
  state->configuration = index_configuration();
  state->indexes = uv_indexes(state->configuration, needs, choice.index_urls);
  const fs::path parent = options.state_root / "cache" / "resolve";
  TRY(base::make_directories(parent));
  TRY(base::make_directories(options.state_root / "cache/uv"));
  state->work = TRY(base::make_temporary_directory(parent, "work"));
  return UvSession(std::move(state));
}

Result<Answer> UvSession::ask(const Question& question) {
  if (question.builds == Builds::forbidden && m_state->host_can_resolve) {
    TRY(m_state->write_files(question, m_state->needs.folder));
    const auto result =
        TRY(m_state->run_here(m_state->arguments(question, m_state->work), m_state->work, question.patience));
    auto answer = TRY(m_state->answer_of(result, m_state->work, m_state->needs.folder));
    if (answer.failure.kind != FailureKind::missing_tool) return answer;
    m_state->host_can_resolve = false;
  }
  TRY(m_state->write_files(question, k_project_inside));
  const auto result = TRY(m_state->run_inside(question, m_state->arguments(question, k_work_inside)));
  return m_state->answer_of(result, k_work_inside, k_project_inside);
}

Result<Answer> UvSession::convert_uv_lock(const fs::path& uv_lock) {
  const fs::path folder = uv_lock.parent_path();
  const fs::path output = m_state->work / k_output;
  const std::vector<std::string> argv{"export",      "--format",      "pylock.toml",   "--frozen",
                                      "--no-header", "--quiet",       "--color",       "never",
                                      "--project",   folder.string(), "--output-file", output.string()};
  const auto result = TRY(m_state->run_here(argv, folder, k_longest_conversion));
  return m_state->answer_of(result, m_state->work, folder);
}

const Request& UvSession::request() const {
  return m_state->request;
}
const std::vector<IndexFile>* UvSession::files_of(const std::string& project) const {
  auto found = m_state->pages.find(project);
  if (found == m_state->pages.end()) {
    auto page = index_page(m_state->indexes.default_index, project);
    found = m_state->pages.emplace(project, page ? std::optional(std::move(*page)) : std::nullopt).first;
  }
  return found->second ? &*found->second : nullptr;
}

void UvSession::fetch_files_of(const std::vector<std::string>& projects) const {
  std::vector<std::string> missing;
  for (const auto& project : projects)
    if (!m_state->pages.contains(project)) missing.push_back(project);
  std::vector<std::optional<std::vector<IndexFile>>> found(missing.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t at = next++; at < missing.size(); at = next++)
      if (auto page = index_page(m_state->indexes.default_index, missing[at])) found[at] = std::move(*page);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < std::min(k_most_page_fetches, missing.size()); ++i) threads.emplace_back(work);
  }
  for (std::size_t at = 0; at < missing.size(); ++at) m_state->pages.emplace(missing[at], std::move(found[at]));
}

const UvIndexes& UvSession::indexes() const {
  return m_state->indexes;
}
const std::vector<std::string>& UvSession::notes() const {
  return m_state->notes;
}

}  // namespace startrail::lock
