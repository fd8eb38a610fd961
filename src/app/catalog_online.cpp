#include "app/catalog_online.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/process.hpp"
#include "catalog/pythons.hpp"
#include "catalog/rows.hpp"
#include "lock/lock.hpp"
#include "lock/tags.hpp"
#include "lock/uv_environment.hpp"
#include "machine/versions.hpp"
#include "project/version.hpp"

namespace startrail::app {
namespace {

namespace fs = std::filesystem;
using catalog::Combination;
using project::Version;

constexpr std::string_view k_oldest_tagged_glibc = "2.5";
constexpr std::chrono::minutes k_patience{2};

// The wheels of one release that Linux on x86_64 can take.
struct Release {
  Version version;
  std::vector<lock::IndexFile> wheels;
  std::vector<lock::WheelName> names;
};

bool is_for_linux(const lock::WheelName& name) {
  return std::ranges::any_of(name.platforms, [](const std::string& platform) {
    return platform == "any" || (platform.find("linux") != std::string::npos && platform.ends_with("x86_64"));
  });
}

std::map<std::string, Release> releases_of(const std::vector<lock::IndexFile>& files) {
  std::map<std::string, Release> releases;
  for (const auto& file : files) {
    const auto name = lock::parse_wheel_name(file.artifact.filename);
    if (!name || file.yanked == lock::Yanked::yes || !is_for_linux(*name)) continue;
    const auto version = Version::parse(name->version);
    if (!version || version->is_prerelease()) continue;
    auto& release = releases.try_emplace(version->without_local().text(), Release{.version = *version}).first->second;
    release.wheels.push_back(file);
    release.names.push_back(*name);
  }
  return releases;
}

// "manylinux_2_28_x86_64" → "2.28"; the old names stand for theirs (PEP 600).
std::string glibc_of(std::string_view platform) {
  if (platform.starts_with("manylinux1_")) return std::string(k_oldest_tagged_glibc);
  if (platform.starts_with("manylinux2010_")) return "2.12";
  if (platform.starts_with("manylinux2014_")) return "2.17";
  if (!platform.starts_with("manylinux_")) return "";
  std::string text(platform.substr(10, platform.find("_x86_64") - 10));
  std::ranges::replace(text, '_', '.');
  return text;
}

std::string glibc_floor(const Release& release) {
  std::string floor;
  for (const auto& name : release.names)
    for (const auto& platform : name.platforms)
      if (const auto glibc = glibc_of(platform); !glibc.empty() && (floor.empty() || machine::older(glibc, floor)))
        floor = glibc;
  return floor;
}

void add_pythons(const Release& release, std::set<std::string>& minors) {
  for (std::size_t i = 0; i < release.names.size(); ++i) {
    const auto wanted = project::SpecifierSet::parse(release.wheels[i].requires_python);
    for (const auto& minor : lock::pythons_of(release.names[i]))
      if (!wanted || wanted->admits_series(minor)) minors.insert(minor);
  }
}

// Of all releases of the series: the last one may have dropped the oldest Python.
std::vector<std::string> pythons_of(const std::map<std::string, Release>& releases, const std::string& series) {
  std::set<std::string> minors;
  for (const auto& [version, release] : releases)
    if (version.starts_with(series + ".")) add_pythons(release, minors);
  std::vector<std::string> sorted(minors.begin(), minors.end());
  std::ranges::sort(sorted, machine::older);
  return sorted;
}

bool is_library(std::string_view name, std::string_view library) {
  return name == library || (name.starts_with(library) && name.substr(library.size()).starts_with("-cu"));
}

// The pages of one index, each asked for once.
class Index {
 public:
  explicit Index(std::string url) : m_url(std::move(url)) {}

  const std::map<std::string, Release>* releases(const std::string& project) {
    const auto [place, fresh] = m_pages.try_emplace(project);
    if (fresh)
      if (const auto files = lock::index_page(m_url, project)) place->second = releases_of(*files);
    return place->second ? &*place->second : nullptr;
  }

 private:
  std::string m_url;
  std::map<std::string, std::optional<std::map<std::string, Release>>> m_pages;
};

std::string newest_of(const std::map<std::string, Release>& releases, const std::string& series) {
  const Release* newest = nullptr;
  for (const auto& [text, release] : releases)
    if (text.starts_with(series + ".") && (newest == nullptr || newest->version < release.version)) newest = &release;
  return newest == nullptr ? "" : newest->version.without_local().text();
}

using Versions = std::map<std::string, std::string>;  // name → version
enum class Which { oldest, newest };

// uv reads the wheels' metadata, also where the index doesn't serve it apart (PEP 658) and it lies in the wheel only.
class Resolver {
 public:
  [[nodiscard]] static Result<Resolver> open(const fs::path& state_root, Reporter& reporter) {
    Resolver resolver;
    const auto configuration = lock::index_configuration();
    resolver.m_uv = TRY(lock::ensure_uv(state_root, reporter));
    resolver.m_environment = lock::uv_environment(
        base::current_environment(), lock::uv_indexes(configuration, project::Requirements{}, {}), configuration);
    resolver.m_environment.insert_or_assign("UV_CACHE_DIR", (state_root / "cache/uv").string());
    return resolver;
  }

  // The versions that these lines and all that they lead to come to; nullopt when they don't go together. The oldest
  // ones are what the metadata asks for; the newest ones are found faster.
  [[nodiscard]] Result<std::optional<Versions>> of(const std::vector<std::string>& lines, const std::string& python,
                                                   Which which) {
    base::Command command;
    command.argv = {m_uv.string(),
                    "pip",
                    "compile",
                    "-",
                    "--no-build",
                    "--no-config",
                    "--no-header",
                    "--no-annotate",
                    "--quiet",
                    "--color",
                    "never",
                    "--resolution",
                    which == Which::oldest ? "lowest" : "highest",
                    "--python-version",
                    python,
                    "--python-platform",
                    "x86_64-manylinux_2_40"};
    command.environment = m_environment;
    command.input = fmt::format("{}\n", fmt::join(lines, "\n"));
    command.timeout = k_patience;
    const auto result = TRY(base::run_process(command));
    if (!result.succeeded()) return std::nullopt;
    return versions_in(result.output);
  }

 private:
  static Versions versions_in(std::string_view text) {
    Versions versions;
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      line = line.substr(0, line.find(' '));
      if (const auto equals = line.find("=="); equals != std::string_view::npos)
        versions.emplace(line.substr(0, std::min(line.find('['), equals)), line.substr(equals + 2));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return versions;
  }

  fs::path m_uv;
  base::Environment m_environment;
};

std::string version_of(const Versions& versions, std::string_view library) {
  for (const auto& [name, version] : versions)
    if (is_library(name, library)) return version;
  return "";
}

class Comparer {
 public:
  Comparer(const Combination& row, Index& index, Resolver& resolver, Comparison& into)
      : m_row(row), m_index(index), m_resolver(resolver), m_into(into) {}

  void run() {
    const std::string wheels = m_row.framework == "jax" ? "jaxlib" : m_row.framework;
    const auto* releases = m_index.releases(wheels);
    if (releases == nullptr) return skip("its index doesn't answer");
    const std::string newest = newest_of(*releases, m_row.series);
    if (newest.empty()) return skip("the index has no wheel of it");
    ++m_into.rows;
    if (wheels == m_row.framework) compare("newest", m_row.newest, newest, m_row.newest == newest);
    const auto found = releases->find(wheels == m_row.framework ? m_row.newest : newest);
    if (found == releases->end()) return skip(fmt::format("the index has no wheel of {}", m_row.newest));
    compare_release(*releases, found->second);
    if (m_row.tag.empty()) compare_libraries();
    for (const auto& wheel : m_row.gpu_wheels) compare_gpu_wheel(wheel);
  }

 private:
  void skip(const std::string& why) { m_into.skipped.push_back(fmt::format("{}: {}", catalog::title(m_row), why)); }

  void compare(const std::string& fact, const std::string& ours, const std::string& theirs, bool same) {
    ++m_into.facts;
    if (!same) m_into.differences.push_back({catalog::title(m_row), fact, ours.empty() ? "nothing" : ours, theirs});
  }

  void compare_release(const std::map<std::string, Release>& releases, const Release& release) {
    const auto pythons = pythons_of(releases, m_row.series);
    auto ours = m_row.pythons;
    std::erase(ours, "2.7");  // what runs Python 3 is all that is looked at
    compare("pythons", fmt::format("{}", fmt::join(ours, ", ")), fmt::format("{}", fmt::join(pythons, ", ")),
            ours == pythons);
    const auto floor = glibc_floor(release);
    if (floor.empty()) return;
    // The oldest tag was also given to wheels that need a newer glibc: there the catalog may say more.
    const bool vague = floor == k_oldest_tagged_glibc && !machine::older(m_row.glibc_floor, floor);
    compare("glibc_floor", m_row.glibc_floor, floor, m_row.glibc_floor == floor || vague);
  }

  void compare_libraries() {
    const std::string extra = m_row.gpu_extra.empty() ? "" : fmt::format("[{}]", m_row.gpu_extra);
    const std::vector<std::string> own{fmt::format("{}{}=={}", m_row.framework, extra, m_row.newest)};
    const auto alone = versions(own, Which::oldest);
    if (!alone) return skip(fmt::format("{} doesn't resolve by itself", own.front()));
    for (const auto& [fact, ours, library] : {std::tuple{"cuda", m_row.cuda, "nvidia-cuda-runtime"},
                                              {"cudnn", m_row.cudnn, "nvidia-cudnn"},
                                              {"nccl", m_row.nccl, "nvidia-nccl"}})
      if (const auto theirs = version_of(*alone, library); !theirs.empty())
        compare(fact, ours, theirs, agree(ours, theirs));
    for (const auto& companion : companions()) {
      auto together = own;
      together.push_back(companion);
      compare("companions", companion, "not one that goes with it", versions(together, Which::newest).has_value());
    }
  }

  [[nodiscard]] std::vector<std::string> companions() const {
    auto lines = m_row.companions;
    if (!m_row.torchvision.empty()) lines.push_back(fmt::format("torchvision=={}.*", m_row.torchvision));
    if (!m_row.torchaudio.empty()) lines.push_back(fmt::format("torchaudio=={}.*", m_row.torchaudio));
    return lines;
  }

  // On the first Python on offer on which the lines go together: a companion may lack wheels for one of them.
  std::optional<Versions> versions(const std::vector<std::string>& lines, Which which) {
    std::vector<std::string> minors;
    for (const auto& offer : catalog::offers())
      if (catalog::has_python(m_row, offer.minor)) minors.emplace_back(offer.minor);
    if (minors.empty()) minors.push_back(m_row.pythons.back());
    for (const auto& minor : minors)
      if (auto answer = m_resolver.of(lines, minor, which); answer && *answer) return std::move(**answer);
    return std::nullopt;
  }

  void compare_gpu_wheel(const std::string& wheel) {
    const auto split = wheel.find("==");
    if (split == std::string::npos) return;
    const auto* releases = m_index.releases(wheel.substr(0, split));
    compare("gpu_wheels", wheel, "no such wheel", releases != nullptr && releases->contains(wheel.substr(split + 2)));
  }

  const Combination& m_row;
  Index& m_index;
  Resolver& m_resolver;
  Comparison& m_into;
};

}  // namespace

bool agree(std::string_view left, std::string_view right) {
  const auto a = machine::version_numbers(left);
  const auto b = machine::version_numbers(right);
  const auto common = std::min(a.size(), b.size());
  return common > 0 && std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(common), b.begin());
}

Result<Comparison> compare_with_index(const Installation& installation, std::span<const Combination> rows,
                                      Reporter& reporter) {
  auto resolver = TRY(Resolver::open(installation.paths.root, reporter));
  Comparison comparison;
  const std::string default_index = lock::index_configuration().default_index;
  std::map<std::string, Index> indexes;
  for (const auto& row : rows) {
    const std::string& url = row.index.empty() ? default_index : row.index;
    reporter.step(fmt::format("comparing {}", catalog::title(row)));
    Comparer(row, indexes.try_emplace(url, url).first->second, resolver, comparison).run();
  }
  return comparison;
}

}  // namespace startrail::app
