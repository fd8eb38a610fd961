// The order in which a folder's files are asked, and how their answers are put together.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "project/declaration.hpp"
#include "project/entry_command.hpp"
#include "project/import_scan.hpp"
#include "project/marker.hpp"
#include "project/own_code.hpp"
#include "project/requirement_line.hpp"
#include "project/requirements_file.hpp"
#include "project/text_scan.hpp"
#include "project/trail_toml.hpp"

namespace startrail::project {
namespace {

constexpr Reading (*k_readers[])(const Folder&) = {read_pylock, read_uv_lock, read_pyproject, read_requirements,
                                                   read_conda,  read_pipfile, read_setup,     read_requirement_list};

constexpr std::string_view k_frameworks[] = {"torch",  "tensorflow", "tensorflow-gpu", "jax",
                                             "jaxlib", "mxnet",      "paddlepaddle"};

bool is_framework(std::string_view name) {
  return std::ranges::find(k_frameworks, name) != std::end(k_frameworks);
}

struct Found {
  std::optional<Declaration> taken;
  std::vector<Declaration> without_packages;  // asked before it, and naming at most Python or an index
  std::size_t next_reader = 0;
};

// `-e .`: the project itself, and with it all that its pyproject.toml declares.
bool installs_the_project(const Declaration& declaration) {
  return std::ranges::any_of(declaration.packages, [](const Requirement& requirement) {
    return requirement.kind == SourceKind::directory &&
           (std::filesystem::path(requirement.location) / "").lexically_normal() == ".";
  });
}

// A requirements file that installs the project says more than the pyproject.toml it leads to.
Result<std::optional<Declaration>> wider_requirements(const Folder& folder, Reading (*reader)(const Folder&)) {
  if (reader != read_pyproject) return std::optional<Declaration>();
  auto requirements = read_requirements(folder);
  if (!requirements || !*requirements || !installs_the_project(**requirements)) return std::optional<Declaration>();
  return std::move(*requirements);
}

Result<Found> find_declaration(const Folder& folder) {
  Found found;
  while (found.next_reader < std::size(k_readers)) {
    const auto reader = k_readers[found.next_reader++];
    auto declaration = TRY(reader(folder));
    if (!declaration) continue;
    if (declaration->declares_packages()) {
      if (auto wider = TRY(wider_requirements(folder, reader))) {
        ++found.next_reader;
        found.without_packages.push_back(std::move(*declaration));
        found.without_packages.back().packages.clear();
        declaration = std::move(wider);
      }
      found.taken = std::move(*declaration);
      return found;
    }
    found.without_packages.push_back(std::move(*declaration));
  }
  return found;
}

std::string described(const Requirement& requirement) {
  return requirement.name + (requirement.specifier.empty() ? "" : " " + requirement.specifier);
}

// What `other` says differently, the telling parts first; empty when both say the same.
std::vector<std::string> differences(const Declaration& taken, const Declaration& other) {
  std::vector<std::string> frameworks, rest;
  if (other.python && (!taken.python || taken.python->value != other.python->value))
    frameworks.push_back("Python " + other.python->value);
  for (const Requirement& requirement : other.packages) {
    const auto same = std::ranges::find(taken.packages, requirement.name, &Requirement::name);
    if (same != taken.packages.end() && same->specifier == requirement.specifier) continue;
    (is_framework(requirement.name) ? frameworks : rest).push_back(described(requirement));
  }
  std::ranges::move(rest, std::back_inserter(frameworks));
  return frameworks;
}

// A lock is made from the files beside it; only declarations of equal standing can contradict each other.
void note_other_declarations(const Folder& folder, Declaration& taken, std::size_t next_reader) {
  if (taken.existing_lock) return;
  for (; next_reader + 1 < std::size(k_readers); ++next_reader) {
    const auto other = k_readers[next_reader](folder);
    if (!other) {
      taken.note({.file = taken.file}, fmt::format("another declaration was not looked at: {}", other.error().message));
      continue;
    }
    if (!*other || !(*other)->declares_packages()) continue;
    const auto differing = differences(taken, **other);
    if (differing.empty()) continue;
    taken.note({.file = (*other)->file},
               fmt::format("{} declares packages too, but differently ({}); {} is taken, and `-r {}` would "
                           "choose the other",
                           (*other)->file, enumerated(differing, 4), taken.file, (*other)->file));
  }
}

template <class T>
void append(std::vector<T>& target, std::vector<T> more) {
  std::ranges::move(more, std::back_inserter(target));
}

// Requirements and Declaration have these facts in common; what comes later wins where only one can hold.
template <class Target>
void merge(Target& result, Declaration declaration) {
  append(result.packages, std::move(declaration.packages));
  append(result.constraints, std::move(declaration.constraints));
  append(result.system_packages, std::move(declaration.system_packages));
  append(result.notes, std::move(declaration.notes));
  append(result.sources, std::move(declaration.sources));
  if (declaration.python) result.python = declaration.python;
  if (declaration.cuda) result.cuda = declaration.cuda;
  if (declaration.existing_lock) result.existing_lock = declaration.existing_lock;
  IndexOptions& indexes = declaration.indexes;
  if (indexes.index_url) result.indexes.index_url = indexes.index_url;
  if (indexes.no_index) result.indexes.no_index = indexes.no_index;
  if (indexes.prereleases) result.indexes.prereleases = indexes.prereleases;
  append(result.indexes.extra_index_urls, std::move(indexes.extra_index_urls));
  append(result.indexes.find_links, std::move(indexes.find_links));
  result.indexes.package_index.merge(indexes.package_index);
}

// pyproject.toml without packages still binds Python and the indexes; an empty requirements file says nothing.
bool says_something(const Declaration& declaration) {
  const IndexOptions& indexes = declaration.indexes;
  return declaration.python || declaration.cuda || indexes.index_url || !indexes.extra_index_urls.empty() ||
         !indexes.find_links.empty() || !indexes.package_index.empty() || !declaration.constraints.empty();
}

// Windows-only and macOS-only entries can't matter here.
void drop_other_platforms(Requirements& result) {
  std::vector<std::string> names;
  std::optional<Origin> first;
  const auto is_foreign = [&](const Requirement& requirement) {
    const auto marker = Marker::parse(requirement.marker);
    if (!marker || marker->evaluate(linux_environment()) != Truth::no) return false;
    names.push_back(requirement.name);
    if (!first) first = requirement.origin;
    return true;
  };
  std::erase_if(result.packages, is_foreign);
  if (first && !result.existing_lock)
    result.notes.push_back({fmt::format("for other systems only, and left out: {}", enumerated(names)), *first});
}

void drop_repeated(std::vector<Requirement>& packages) {
  std::vector<Requirement> kept;
  std::set<std::string> lines;
  for (Requirement& requirement : packages)
    if (lines.insert(to_pep508(requirement)).second) kept.push_back(std::move(requirement));
  packages = std::move(kept);
}

// ".python-version" (pyenv's and uv's file): a wish where nothing else names a version.
void add_python_version_file(const Folder& folder, Requirements& result) {
  if (result.python || !folder.has_file(".python-version")) return;
  const auto text = folder.read_text(".python-version");
  if (!text) return;
  const std::string_view line = trimmed(std::string_view(text->text).substr(0, text->text.find('\n')));
  if (line.empty() || !is_digit(line.front())) return;  // the name of a virtual environment
  const auto specifier = python_specifier(line);
  if (!specifier) return;
  result.python = Fact<std::string>{*specifier, {.file = text->file, .line = 1}};
  result.sources.push_back({.file = text->file, .sha256 = text->sha256});
}

// "# torch==1.6.0=pypi_0": what `pip freeze` of a conda environment left, switched off because pip refused it.
std::optional<Fact<std::string>> framework_in_comment(const Folder& folder, const Requirements& result) {
  if (result.declared_by != DeclaredBy::requirements_txt) return std::nullopt;
  for (const SourceFile& source : result.sources) {
    const auto text = folder.read_text(source.file);
    int number = 0;
    for (std::string_view line : split(text ? std::string_view(text->text) : std::string_view(), '\n')) {
      ++number;
      line = trimmed(line);
      if (!line.starts_with('#')) continue;
      line = trimmed(line.substr(1));
      if (const std::size_t build = line.rfind("=pypi"); build != std::string_view::npos) line = line.substr(0, build);
      const auto requirement = parse_requirement(line, {.file = source.file, .line = number});
      if (requirement && is_framework(requirement->name))
        return Fact<std::string>{requirement->as_written, requirement->origin};
    }
  }
  return std::nullopt;
}

// A project whose framework comes from its Dockerfile, or is imported only, would resolve well and then fail.
void note_missing_framework(const Folder& folder, Requirements& result) {
  if (result.packages.empty() ||
      std::ranges::any_of(result.packages, [](const auto& entry) { return is_framework(entry.name); }))
    return;
  if (const auto comment = framework_in_comment(folder, result)) {
    result.notes.push_back(
        {fmt::format("{} stands in a comment only; `packages` in trail.toml can name it", comment->value),
         comment->origin});
  }
  if (const auto image = framework_image(folder)) {
    result.notes.push_back(
        {fmt::format("builds on {}, whose framework no file declares; `packages` in trail.toml can name it",
                     image->value),
         image->origin});
    return;
  }
  Declaration scratch;
  for (const auto& import : SourceTree::scan(folder).foreign_imports(scratch)) {
    const std::string top_level = import.module.substr(0, import.module.find('.'));
    if (import.need == Need::optional || !is_framework(top_level)) continue;
    result.notes.push_back(
        {fmt::format("imports {}, which no file declares; unless another package brings it, name it in trail.toml's "
                     "`packages`",
                     top_level),
         import.origin});
    return;
  }
}

void note_unread_locks(const Folder& folder, Requirements& result) {
  if (result.existing_lock || result.declared_by == DeclaredBy::nothing) return;
  for (const char* name : {"poetry.lock", "pdm.lock", "conda-lock.yml"})
    if (folder.has_file(name))
      result.notes.push_back({"this lock is not read: versions are resolved anew", {.file = name}});
}

Result<Declaration> declared_by_imports(const SourceTree& tree, const ReadOptions& options) {
  return read_imports(tree, TRY(ImportNames::load(options.module_map, options.standard_library_list)));
}

Result<void> add_declarations(const Folder& folder, const ReadOptions& options, const std::optional<TrailFile>& trail,
                              Requirements& result) {
  if (!options.requirement_files.empty()) {
    Declaration named = TRY(read_named_files(folder, options.requirement_files));
    result.declared_by = named.declared_by;
    merge(result, std::move(named));
    return {};
  }
  Found found = TRY(find_declaration(folder));
  for (Declaration& declaration : found.without_packages)
    if (says_something(declaration)) merge(result, std::move(declaration));
  if (found.taken) {
    note_other_declarations(folder, *found.taken, found.next_reader);
    result.declared_by = found.taken->declared_by;
    if (found.taken->declared_by == DeclaredBy::uv_lock)  // its packages come from where pyproject.toml says
      if (auto project = TRY(read_pyproject(folder))) {
        project->packages.clear();
        project->constraints.clear();
        merge(result, std::move(*project));
      }
    merge(result, std::move(*found.taken));
  } else if (trail && trail->environment.declares_packages()) {
    result.declared_by = DeclaredBy::trail_toml;
  } else if (const SourceTree tree = SourceTree::scan(folder); tree.has_python()) {
    Declaration imported = TRY(declared_by_imports(tree, options));
    result.declared_by = DeclaredBy::imports;
    merge(result, std::move(imported));
  }
  return {};
}

}  // namespace

Result<Declaration> read_named_files(const Folder& folder, const std::vector<std::string>& files) {
  Declaration all{.declared_by = DeclaredBy::requirements_txt, .file = files.front()};
  RequirementsFileReader reader(folder, all);
  for (const std::string& file : files) {
    const std::string name = file.substr(file.rfind('/') + 1);
    if (!name.ends_with(".toml") && !name.ends_with(".yml") && !name.ends_with(".yaml") && name != "uv.lock") {
      TRY(reader.add_file(file, Role::packages));
      continue;
    }
    const bool lock = name == "uv.lock" || name.starts_with("pylock.");
    if (!lock && name.ends_with(".toml"))
      return fail(error(ErrorCode::invalid_input, fmt::format("{} can't be named with -r", file))
                      .with_hint(fmt::format("give the folder that holds it instead: `trail run {}`",
                                             std::filesystem::path(file).parent_path().string())));
    Declaration one = TRY(lock ? read_pylock_file(folder, file) : read_conda_file(folder, file));
    if (!one.declares_packages()) return fail(ErrorCode::invalid_input, fmt::format("{} declares no packages", file));
    if (files.size() == 1) return one;
    all.declared_by = one.declared_by;
    merge(all, std::move(one));
  }
  return all;
}

Result<Requirements> read(const std::filesystem::path& path, const ReadOptions& options) {
  const Folder folder = TRY(Folder::open(path));
  Requirements result;
  result.folder = path;
  auto trail = TRY(read_trail_toml(folder));
  TRY(add_declarations(folder, options, trail, result));
  if (trail) {
    result.settings = std::move(trail->settings);
    result.command = std::move(trail->command);
    merge(result, std::move(trail->environment));
  }
  add_python_version_file(folder, result);
  drop_other_platforms(result);
  drop_repeated(result.packages);
  if (!result.existing_lock) note_missing_framework(folder, result);
  note_unread_locks(folder, result);
  if (!result.command) result.command = guessed_command(folder);
  result.own_package = own_package(folder);
  result.import_roots = import_roots(folder);
  std::ranges::sort(result.sources, {}, &SourceFile::file);
  const auto repeated = std::ranges::unique(result.sources, {}, &SourceFile::file);
  result.sources.erase(repeated.begin(), repeated.end());
  return result;
}

bool needs_module_map(const std::filesystem::path& path) {
  const auto folder = Folder::open(path);
  if (!folder) return false;
  const auto trail = read_trail_toml(*folder);
  if (!trail || (*trail && (*trail)->environment.declares_packages())) return false;
  const auto found = find_declaration(*folder);
  return found && !found->taken && SourceTree::scan(*folder).has_python();
}

}  // namespace startrail::project
