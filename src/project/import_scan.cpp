#include "project/import_scan.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/hash.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

constexpr std::uintmax_t k_source_limit = 2'000'000;  // larger ones are data
constexpr std::size_t k_file_count_limit = 5000;
constexpr int k_depth_limit = 16;

bool is_skipped_directory(const std::string& name) {
  static const std::set<std::string_view> names{
      "node_modules", "build", "dist", "__pycache__", "site-packages", "venv",          "env",
      "virtualenv",   "docs",  "doc",  "wandb",       "mlruns",        "lightning_logs"};
  return name.starts_with('.') || names.contains(name) || name.ends_with(".egg-info");
}

bool is_test_directory(std::string_view name) {
  return name == "tests" || name == "test" || name == "testing";
}
bool is_test_file(std::string_view name) {
  return name.starts_with("test_") || name.ends_with("_test.py") || name == "conftest.py" || name == "tests.py";
}

std::string directory_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash);
}

enum class Purpose { program, tests };

class TreeWalk {
 public:
  TreeWalk(const Folder& folder, std::vector<std::string>& files, std::vector<std::string>& tests,
           std::vector<std::string>& too_large)
      : m_folder(folder), m_files(files), m_tests(tests), m_too_large(too_large) {}

  void visit(const std::string& directory, int depth, Purpose purpose) {
    if (depth > k_depth_limit || m_files.size() + m_tests.size() >= k_file_count_limit) return;
    std::vector<std::string> directories;
    for (const auto& [name, is_directory] : entries(directory)) {
      const std::string path = directory.empty() ? name : fmt::format("{}/{}", directory, name);
      if (is_directory) {
        if (!is_skipped_directory(name) && !m_folder.has_file(path + "/pyvenv.cfg")) directories.push_back(path);
      } else if (name.ends_with(".py")) {
        add_file(path, name, depth, purpose);
      }
    }
    for (const std::string& child : directories)
      visit(child, depth + 1, is_test_directory(child.substr(child.rfind('/') + 1)) ? Purpose::tests : purpose);
  }

 private:
  // Name and whether it's a folder; links to folders are left out, so that no loop can be entered.
  std::vector<std::pair<std::string, bool>> entries(const std::string& directory) const {
    struct Close {
      void operator()(DIR* stream) const { ::closedir(stream); }
    };
    std::vector<std::pair<std::string, bool>> result;
    const std::filesystem::path path = m_folder.root() / directory;
    const std::unique_ptr<DIR, Close> stream(::opendir(path.c_str()));
    while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      bool is_directory = entry->d_type == DT_DIR;
      if (entry->d_type == DT_UNKNOWN) {
        struct stat status{};
        is_directory = ::lstat((path / name).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
      }
      result.emplace_back(name, is_directory);
    }
    std::ranges::sort(result);
    return result;
  }

  void add_file(const std::string& path, const std::string& name, int depth, Purpose purpose) {
    if (depth == 0 && name == "setup.py") return;  // what building needs is not what running needs
    struct stat status{};
    if (::stat((m_folder.root() / path).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    if (static_cast<std::uintmax_t>(status.st_size) > k_source_limit) {
      m_too_large.push_back(path);
    } else {
      (purpose == Purpose::tests || is_test_file(name) ? m_tests : m_files).push_back(path);
    }
  }

  const Folder& m_folder;
  std::vector<std::string>&m_files, &m_tests, &m_too_large;
};

}  // namespace

SourceTree SourceTree::scan(const Folder& folder) {
  SourceTree tree;
  tree.m_folder = &folder;
  TreeWalk(folder, tree.m_files, tree.m_tests, tree.m_too_large).visit("", 0, Purpose::program);
  std::set<std::string> directories;
  for (const auto* list : {&tree.m_files, &tree.m_tests})
    for (const std::string& file : *list) {
      const std::string directory = directory_of(file);
      std::string name = file.substr(directory.empty() ? 0 : directory.size() + 1);
      name.resize(name.size() - 3);
      tree.m_modules[name].push_back(directory);
      for (std::string path = directory; !path.empty() && directories.insert(path).second; path = directory_of(path))
        tree.m_modules[path.substr(path.rfind('/') + 1)].push_back(directory_of(path));
    }
  return tree;
}

bool SourceTree::has_module(const std::string& name) const {
  return m_modules.contains(name);
}

// Where `import x` of a file finds the project's own modules: beside it, in the project folder or in its src.
bool SourceTree::is_local(const std::string& top_level, const std::string& importing_directory) const {
  const auto found = m_modules.find(top_level);
  if (found == m_modules.end()) return false;
  for (const std::string& directory : found->second) {
    if (directory.empty() || directory == "src" || directory == importing_directory) return true;
    if (importing_directory.starts_with(directory + "/")) return true;
  }
  return false;
}

std::vector<SourceTree::FoundImport> SourceTree::foreign_imports(Declaration& declaration) const {
  std::map<std::string, FoundImport> found;
  for (const std::string& file : m_files.empty() ? m_tests : m_files) {
    const auto text = m_folder->read_text(file);
    if (!text) {
      declaration.note({.file = file}, fmt::format("not read: {}", text.error().message));
      continue;
    }
    const std::string directory = directory_of(file);
    for (Import& import : imports(text->text)) {
      if (is_local(import.module.substr(0, import.module.find('.')), directory)) continue;
      FoundImport entry{.module = import.module, .origin = {.file = file, .line = import.line}, .need = import.need};
      const auto [place, added] = found.try_emplace(import.module, entry);
      if (!added && place->second.need == Need::optional && import.need == Need::required)
        place->second = std::move(entry);
    }
  }
  for (const std::string& file : m_too_large)
    declaration.note({.file = file}, "larger than 2 MB, so its imports are not looked for");
  std::vector<FoundImport> result;
  result.reserve(found.size());
  for (auto& [module, entry] : found) result.push_back(std::move(entry));
  return result;
}

Declaration read_imports(const SourceTree& tree, const ImportNames& names) {
  Declaration declaration{.declared_by = DeclaredBy::imports, .file = "imports"};
  std::map<std::string, Requirement> packages;
  std::set<std::string> guessed, dropped, unknowable;
  for (const auto& import : tree.foreign_imports(declaration)) {
    const std::string top_level = import.module.substr(0, import.module.find('.'));
    if (names.is_standard(top_level)) continue;
    // `__pypy__`, `_winapi`: an interpreter's own, or a part of something else; no distribution is named so (PEP 508).
    if (top_level.starts_with('_') && !names.distribution(import.module)) continue;
    const auto known = names.distribution(import.module);
    // A module found somewhere deeper in the tree is the project's own, unless it's a well-known package.
    if (!known && tree.has_module(top_level)) continue;
    if (known && known->empty()) {
      unknowable.insert(top_level);
      continue;
    }
    if (!known && import.need == Need::optional) {
      dropped.insert(top_level);
      continue;
    }
    if (!known) guessed.insert(top_level);
    Requirement requirement{.name = normalized_name(known ? *known : top_level), .origin = import.origin};
    requirement.as_written = "import " + top_level;
    packages.try_emplace(requirement.name, std::move(requirement));
  }
  std::string list;
  for (auto& [name, requirement] : packages) {
    list += name + "\n";
    declaration.packages.push_back(std::move(requirement));
  }
  const auto listed = [](const std::set<std::string>& set) { return enumerated({set.begin(), set.end()}); };
  const Origin whole{.file = "imports"};
  declaration.note(whole, "no file declares packages; they are taken from the imports, in any version");
  if (!guessed.empty()) declaration.note(whole, fmt::format("taken as packages of the same name: {}", listed(guessed)));
  if (!dropped.empty())
    declaration.note(whole, fmt::format("imported only if present, and left out: {}", listed(dropped)));
  if (!unknowable.empty())
    declaration.note(
        whole,
        fmt::format("imported, but not in the package index under that name: {}; `packages` in trail.toml can name "
                    "its repository",
                    listed(unknowable)));
  declaration.sources.push_back({.file = "imports", .sha256 = base::sha256_hex(list)});
  return declaration;
}

}  // namespace startrail::project
