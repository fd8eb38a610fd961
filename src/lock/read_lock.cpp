// PEP 751 ("A file format to record Python dependencies for installation reproducibility").
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/document.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "lock/lock.hpp"
#include "lock/lock_text.hpp"
#include "lock/locked_fields.hpp"
#include "lock/own_code.hpp"
#include "lock/suite.hpp"
#include "lock/tags.hpp"
#include "project/marker.hpp"
#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

// Only the variables that say where libraries lie: a lock from elsewhere must not reach further.
bool is_library_variable(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('='));
  return text.find('=') != std::string_view::npos && (name == "LD_LIBRARY_PATH" || name == "XLA_FLAGS");
}

constexpr int k_newest_schema = 1;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// PyPA "Names and normalization": letters, digits, '.', '_', '-', beginning and ending with one of the first two.
bool is_project_name(std::string_view text) {
  const auto alphanumeric = [](unsigned char c) { return std::isalnum(c) != 0; };
  if (text.empty() || !alphanumeric(text.front()) || !alphanumeric(text.back())) return false;
  return std::ranges::all_of(text,
                             [&](unsigned char c) { return alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

// What appears in a version: PEP 440 and the legacy versions that old releases still carry. Never a path.
bool is_version_text(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '+' || c == '-' || c == '_' || c == '!';
  });
}

bool is_minor(std::string_view text) {
  return text.starts_with("3.") && text.size() > 2 && text.size() <= 4 &&
         std::ranges::all_of(text.substr(2), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_word(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '.'; });
}

bool stays_inside(const fs::path& path) {
  return !path.is_absolute() && std::ranges::none_of(path, [](const fs::path& part) { return part == ".."; });
}

std::string last_component(std::string_view address) {
  address = address.substr(0, address.find_first_of("?#"));
  const auto slash = address.rfind('/');
  return project::percent_decoded(slash == std::string_view::npos ? address : address.substr(slash + 1));
}

bool is_plain_filename(std::string_view text) {
  if (text.empty() || text == "." || text == "..") return false;
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == '/' || c == '\\' || c == 0x7f; });
}

bool is_fetchable(std::string_view url) {
  return url.starts_with("https://") || url.starts_with("http://") || url.starts_with("file://");
}

// Reads one lock; members hold what every package is judged by.
class LockReader {
 public:
  LockReader(const base::Document& document, std::string name)
      : m_root{.document = document, .json = document.root, .pointer = "", .name = std::move(name)} {}

  Result<Lock> read(const std::string& python_if_absent);

 private:
  Result<void> read_header();
  Result<void> read_tool_table(const std::string& python_if_absent);
  Result<void> read_torch_builds(const Table& tool);
  Result<void> read_inputs(const Table& tool);
  Result<std::optional<LockedPackage>> read_package(const Table& table);
  Result<void> read_source(const Table& table, LockedPackage& package);
  Result<void> read_wheels(const Table& table, LockedPackage& package);
  Result<void> read_vcs(const Table& table, LockedPackage& package);
  Result<void> read_directory(const Table& table, LockedPackage& package);
  Result<Artifact> read_artifact(const Table& table, const LockedPackage& package);
  [[nodiscard]] std::unexpected<Error> no_wheel_fits(const Table& table, const LockedPackage& package) const;

  Table m_root;
  Lock m_lock;
  project::MarkerEnvironment m_environment;
  Tags m_tags;
};

Result<Lock> LockReader::read(const std::string& python_if_absent) {
  const std::string version = TRY(m_root.required_text("lock-version"));
  if (!version.starts_with("1.") && version != "1")
    return fail(error(ErrorCode::unsupported,
                      fmt::format("{} has lock-version {}; this program reads 1.x", m_root.name, version)));
  TRY(read_tool_table(python_if_absent));
  m_environment = marker_environment(m_lock.python);
  m_tags = Tags::for_python(m_lock.python, glibc_minor_of(m_lock.suite));
  for (const auto& group : TRY(m_root.texts("default-groups"))) m_environment["dependency_groups"] += group + "\n";
  TRY(read_header());
  if (!m_root.has("packages") && !m_root.json.contains("packages")) return m_root.corrupt("packages", "is missing");
  for (const auto& table : TRY(m_root.tables("packages"))) {
    auto package = TRY(read_package(table));
    if (!package) continue;
    const auto same = [&](const LockedPackage& other) { return other.name == package->name; };
    if (std::ranges::any_of(m_lock.packages, same))
      return table.corrupt("name", fmt::format("lists {} twice for Python {}", package->name, m_lock.python));
    m_lock.packages.push_back(std::move(*package));
  }
  std::ranges::sort(m_lock.packages, {}, &LockedPackage::name);
  return std::move(m_lock);
}

Result<void> LockReader::read_header() {
  const auto environments = TRY(m_root.texts("environments"));
  bool matches = environments.empty();
  for (const auto& marker : environments) {
    const auto parsed = project::Marker::parse(marker);
    if (!parsed) return m_root.corrupt("environments", "holds a marker that can't be read: " + parsed.error().message);
    matches = matches || parsed->evaluate(m_environment) == project::Truth::yes;
  }
  if (!matches)
    return fail(error(ErrorCode::unsupported, fmt::format("{} is for other environments than Python {} on Linux x86_64",
                                                          m_root.name, m_lock.python))
                    .with_context("its environments: " + environments.front()));
  const std::string requires_python = TRY(m_root.text("requires-python"));
  const auto specifier = project::SpecifierSet::parse(requires_python);
  if (!specifier) return m_root.corrupt("requires-python", "is not a version specifier");
  if (!specifier->admits_series(m_lock.python))
    return fail(error(ErrorCode::unsupported,
                      fmt::format("{} needs Python {}, not {}", m_root.name, requires_python, m_lock.python)));
  return {};
}

Result<void> LockReader::read_tool_table(const std::string& python_if_absent) {
  const Table tools = TRY(m_root.table("tool"));
  const Table tool = TRY(tools.table("startrail"));
  m_lock.python = python_if_absent;
  if (!tools.has("startrail")) {
    const Suite* suite = suite_with_python(m_lock.python);
    m_lock.suite = suite != nullptr ? suite->name : "";
    return {};
  }
  const auto schema = TRY(tool.count("schema"));
  if (schema < 1) return tool.corrupt("schema", "is missing");
  if (schema > k_newest_schema)
    return fail(
        error(ErrorCode::unsupported,
              fmt::format("{} was written by a newer version of this program (schema {})", m_root.name, schema)));
  m_lock.python = TRY(tool.required_text("python"));
  if (!is_minor(m_lock.python)) return tool.corrupt("python", "should be a minor version, as \"3.11\"");
  m_lock.suite = TRY(tool.text("suite"));
  if (!is_word(m_lock.suite)) return tool.corrupt("suite", "is not the name of a suite");
  m_lock.base_recipe = TRY(tool.text("base-recipe"));
  m_lock.base_digest = TRY(tool.text("base-digest"));
  m_lock.system_packages = TRY(tool.texts("system-packages"));
  for (const auto& package : m_lock.system_packages)
    if (package.empty() || package.front() == '-' || !std::ranges::all_of(package, [](unsigned char c) {
          return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '+' || c == ':';
        }))
      return tool.corrupt("system-packages", fmt::format("holds \"{}\", which is no package name", package));
  const std::string build = TRY(tool.text("build"));
  if (build != "gpu" && build != "cpu") return tool.corrupt("build", "should be \"gpu\" or \"cpu\"");
  m_lock.build = build == "cpu" ? project::Build::cpu : project::Build::gpu;
  m_lock.framework = TRY(tool.text("framework"));
  m_lock.framework_version = TRY(tool.text("framework-version"));
  m_lock.cuda = TRY(tool.text("cuda"));
  m_lock.cudnn = TRY(tool.text("cudnn"));
  m_lock.nccl = TRY(tool.text("nccl"));
  m_lock.driver_floor = TRY(tool.text("driver-floor"));
  m_lock.architectures = TRY(tool.texts("architectures"));
  TRY(read_torch_builds(tool));
  m_lock.environment = TRY(tool.texts("environment"));
  for (const auto& variable : m_lock.environment)
    if (!is_library_variable(variable))
      return tool.corrupt("environment", fmt::format("holds \"{}\", which names no library's place", variable));
  m_lock.settings_digest = TRY(tool.text("settings-digest"));
  if (const std::string root = TRY(tool.text("import-root")); !root.empty()) {
    if (root != "." && root != "src") return tool.corrupt("import-root", "should be \".\" or \"src\"");
    m_lock.packages.push_back(import_path(root));
  }
  m_lock.notes = TRY(tool.texts("notes"));
  return read_inputs(tool);
}

// Both end up in the environment of a build.
Result<void> LockReader::read_torch_builds(const Table& tool) {
  m_lock.built_with_torch = TRY(tool.texts("built-with-torch"));
  m_lock.build_architectures = TRY(tool.texts("build-architectures"));
  for (const auto& name : m_lock.built_with_torch)
    if (project::normalized_name(name) != name || !is_word(name))
      return tool.corrupt("built-with-torch", fmt::format("holds \"{}\", which is no package's name", name));
  for (const auto& architecture : m_lock.build_architectures)
    if (architecture.empty() || architecture.find_first_not_of("0123456789.") != std::string::npos)
      return tool.corrupt("build-architectures",
                          fmt::format("holds \"{}\", which is no compute capability", architecture));
  return {};
}

Result<void> LockReader::read_inputs(const Table& tool) {
  for (const auto& input : TRY(tool.tables("inputs"))) {
    project::SourceFile file;
    file.file = TRY(input.required_text("file"));
    file.sha256 = TRY(input.required_text("sha256"));
    m_lock.inputs.push_back(std::move(file));
  }
  return {};
}

Result<std::optional<LockedPackage>> LockReader::read_package(const Table& table) {
  LockedPackage package;
  const std::string written = TRY(table.required_text("name"));
  if (!is_project_name(written)) return table.corrupt("name", fmt::format("is \"{}\", no project name", written));
  package.name = project::normalized_name(written);
  package.version = TRY(table.text("version"));
  if (!is_version_text(package.version))
    return table.corrupt("version", fmt::format("of {} is \"{}\", no version", package.name, package.version));
  const std::string marker = TRY(table.text("marker"));
  const auto wanted = project::Marker::parse(marker);
  if (!wanted) return table.corrupt("marker", fmt::format("of {}: {}", package.name, wanted.error().message));
  if (wanted->evaluate(m_environment) != project::Truth::yes) return std::nullopt;
  package.index = without_userinfo(TRY(table.text("index")));
  TRY(read_source(table, package));
  return package;
}

Result<void> LockReader::read_source(const Table& table, LockedPackage& package) {
  const bool distributions = table.has("wheels") || table.has("sdist");
  const int sources =
      int(distributions) + int(table.has("vcs")) + int(table.has("archive")) + int(table.has("directory"));
  if (sources != 1)
    return table.corrupt(
        "name",
        fmt::format("is {}, which should have exactly one of wheels/sdist, vcs, archive, directory", package.name));
  if (distributions) return read_wheels(table, package);
  if (table.has("vcs")) return read_vcs(TRY(table.table("vcs")), package);
  if (table.has("directory")) return read_directory(TRY(table.table("directory")), package);
  const Table archive = TRY(table.table("archive"));
  package.kind = PackageKind::archive;
  package.artifact = TRY(read_artifact(archive, package));
  package.subdirectory = TRY(archive.text("subdirectory"));
  if (!stays_inside(package.subdirectory)) return archive.corrupt("subdirectory", "leads outside of the archive");
  return {};
}

Result<void> LockReader::read_wheels(const Table& table, LockedPackage& package) {
  std::optional<int> best;
  for (const auto& entry : TRY(table.tables("wheels"))) {
    Artifact artifact = TRY(read_artifact(entry, package));
    const auto wheel = parse_wheel_name(artifact.filename);
    if (!wheel) return entry.corrupt("name", fmt::format("of {}: {}", package.name, wheel.error().message));
    if (project::normalized_name(wheel->distribution) != package.name)
      return entry.corrupt("name",
                           fmt::format("is {}, a wheel of another project than {}", artifact.filename, package.name));
    const auto rank = m_tags.rank(*wheel);
    // The highest build tag wins between equals; names order them well enough for the digits that exist.
    const bool better =
        rank && (!best || *rank < *best || (*rank == *best && artifact.filename > package.artifact.filename));
    if (!better) continue;
    best = rank;
    package.kind = PackageKind::wheel;
    package.artifact = std::move(artifact);
  }
  if (best) return {};
  if (!table.has("sdist")) return no_wheel_fits(table, package);
  package.kind = PackageKind::sdist;
  const Table sdist = TRY(table.table("sdist"));
  package.artifact = TRY(read_artifact(sdist, package));
  return {};
}

std::unexpected<Error> LockReader::no_wheel_fits(const Table& table, const LockedPackage& package) const {
  std::string names;
  for (const auto& wheel : base::member(table.json, "wheels"))
    if (names.size() < 200)
      names +=
          (names.empty() ? "" : ", ") + last_component(base::string_at(wheel, "url", base::string_at(wheel, "name")));
  return fail(error(ErrorCode::unsupported, fmt::format("{} has no wheel of {} {} for Python {} on Linux x86_64",
                                                        m_root.name, package.name, package.version, m_lock.python))
                  .with_context("it lists " + (names.empty() ? std::string("no file") : names)));
}

Result<void> LockReader::read_vcs(const Table& table, LockedPackage& package) {
  package.kind = PackageKind::vcs;
  package.vcs_type = TRY(table.required_text("type"));
  if (package.vcs_type != "git")
    return fail(error(ErrorCode::unsupported,
                      fmt::format("{} comes from {}; only git is supported", package.name, package.vcs_type)));
  package.vcs_url = TRY(table.has("url") ? table.text("url") : table.required_text("path"));
  if (package.vcs_url.starts_with('-')) return table.corrupt("url", "begins with '-'");
  package.vcs_commit = lower(TRY(table.required_text("commit-id")));
  const auto size = package.vcs_commit.size();
  if ((size != 40 && size != 64) || !is_hex(package.vcs_commit))
    return table.corrupt("commit-id", fmt::format("of {} is not a full commit", package.name));
  package.subdirectory = TRY(table.text("subdirectory"));
  if (!stays_inside(package.subdirectory)) return table.corrupt("subdirectory", "leads outside of the repository");
  return {};
}

Result<void> LockReader::read_directory(const Table& table, LockedPackage& package) {
  package.kind = PackageKind::directory;
  const fs::path path = TRY(table.required_text("path"));
  const std::string inner = TRY(table.text("subdirectory"));
  if (!stays_inside(inner)) return table.corrupt("subdirectory", "leads outside of the folder");
  package.directory = (inner.empty() ? path : path / inner).lexically_normal().generic_string();
  package.editable = base::boolean_at(table.json, "editable") ? project::Editable::yes : project::Editable::no;
  package.artifact.sha256 = TRY(table.text("tree-sha256"));
  return {};
}

Result<Artifact> LockReader::read_artifact(const Table& table, const LockedPackage& package) {
  Artifact artifact;
  artifact.url = without_userinfo(TRY(table.text("url")));
  artifact.path = TRY(table.text("path"));
  artifact.filename = TRY(table.text("name"));
  artifact.size.count = TRY(table.count("size"));
  if (!artifact.url.empty() && !is_fetchable(artifact.url))
    return table.corrupt("url", fmt::format("of {} is neither http(s) nor file", package.name));
  if (artifact.filename.empty())
    artifact.filename = last_component(artifact.url.empty() ? artifact.path : artifact.url);
  if (!is_plain_filename(artifact.filename))
    return table.corrupt("name", fmt::format("of {} is \"{}\", no plain file name", package.name, artifact.filename));
  const Table hashes = TRY(table.table("hashes"));
  artifact.sha256 = lower(TRY(hashes.text("sha256")));
  if (artifact.sha256.empty())
    return table.corrupt("hashes", fmt::format("of {} ({}) has no sha256", package.name, artifact.filename));
  if (artifact.sha256.size() != 64 || !is_hex(artifact.sha256))
    return hashes.corrupt("sha256", fmt::format("of {} is not 64 hexadecimal digits", package.name));
  return artifact;
}

}  // namespace

std::string without_userinfo(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos) return std::string(url);
  const auto authority = url.substr(scheme + 3, url.find_first_of("/?#", scheme + 3) - scheme - 3);
  const auto at = authority.rfind('@');
  if (at == std::string_view::npos) return std::string(url);
  return std::string(url.substr(0, scheme + 3)) + std::string(url.substr(scheme + 3 + at + 1));
}

Result<Lock> parse_lock(std::string_view text, const std::string& name, const std::string& python_if_absent) {
  const base::Document document = TRY(base::parse_toml(text, name));
  return LockReader(document, name).read(python_if_absent);
}

Result<Lock> read_lock(const fs::path& file, const std::string& python_if_absent) {
  if (file.filename() == "uv.lock")
    return fail(error(ErrorCode::unsupported, fmt::format("{} is uv's own format, not PEP 751", file.string()))
                    .with_hint("`trail lock` in its folder converts it"));
  constexpr Bytes k_largest_lock{64ULL << 20U};
  const std::string text = TRY(base::read_file(file, k_largest_lock));
  return parse_lock(text, file.filename().string(), python_if_absent);
}

}  // namespace startrail::lock
