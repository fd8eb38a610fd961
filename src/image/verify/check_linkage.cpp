// As the dynamic linker would resolve it (ld.so(8)): RPATH, LD_LIBRARY_PATH, RUNPATH, the system's folders.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/files.hpp"
#include "image/environment_tree.hpp"
#include "image/verify/elf_file.hpp"
#include "image/verify/inside.hpp"
#include "image/verify/levels.hpp"

namespace startrail::image {
namespace {

// They come with the host's driver, by CDI, and are in no image.
constexpr std::array<std::string_view, 12> k_drivers_own{
    "libcuda.so.1",          "libnvidia-ml.so.1",     "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-nvvm.so.4",   "libnvcuvid.so.1",       "libcudadebugger.so.1",
    "libnvidia-encode.so.1", "libnvidia-opencl.so.1", "libnvidia-cfg.so.1",
    "libnvidia-fbc.so.1",    "libnvoptix.so.1",       "libnvidia-pkcs11.so.1"};

constexpr std::array<std::string_view, 6> k_system_folders{
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"};

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(':'));
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(text.size(), part.size() + 1));
  }
  return parts;
}

// PEP 3149's names: what Python's import opens.
bool is_extension_module(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.find(".cpython-") != std::string::npos || name.ends_with(".abi3.so") ||
         (name.ends_with(".so") && !name.starts_with("lib"));
}

struct Object {
  std::string path;  // inside
  ElfFile elf;
};

class LinkageCheck {
 public:
  LinkageCheck(const Image& image, Reporter& reporter) : m_image(image), m_inside(image.layers), m_reporter(reporter) {}

  LevelResult run() {
    collect();
    for (const Object& object : m_objects) note_needed(object);
    for (const Object& object : m_objects) check(object);
    LevelResult result{.level = Level::linkage, .outcome = Outcome::passed};
    result.figures =
        Json{{"libraries", m_objects.size()}, {"missing", m_failures.size()}, {"optional", m_warnings.size()}};
    if (!m_warnings.empty()) result.outcome = Outcome::warned;
    if (!m_failures.empty()) result.outcome = Outcome::failed;
    result.findings = m_failures;
    result.findings.insert(result.findings.end(), m_warnings.begin(), m_warnings.end());
    result.summary = !m_failures.empty() ? fmt::format("{} of {} libraries can't be loaded: {}", m_failures.size(),
                                                       m_objects.size(), m_failures.front())
                     : !m_warnings.empty()
                         ? fmt::format("{} libraries; {} plug-ins that nothing here imports lack something",
                                       m_objects.size(), m_warnings.size())
                         : fmt::format("{} libraries find all that they need", m_objects.size());
    return result;
  }

 private:
  // The environment's own files; a foreign image's whole tree. A Debian base has been put together by its own packages.
  void collect() {
    const fs::path root = m_image.layers.size() > 1 ? m_image.layers.front() / k_prefix : m_image.layers.front();
    for (const fs::path& layer : m_image.layers) {
      const fs::path environment = layer / k_prefix;
      std::error_code none;
      if (m_image.layers.size() > 1 && fs::is_directory(environment, none)) collect_below(environment, layer);
    }
    if (m_image.layers.size() == 1) collect_below(root, root);
  }

  void collect_below(const fs::path& root, const fs::path& layer) {
    std::error_code failed;
    for (fs::recursive_directory_iterator at(root, failed), end; !failed && at != end; at.increment(failed)) {
      std::error_code ignored;
      if (at->is_symlink(ignored) || !at->is_regular_file(ignored)) continue;
      const std::string name = at->path().filename().string();
      const bool may_be_library = name.find(".so") != std::string::npos;
      if (!may_be_library) continue;
      auto elf = read_elf(at->path());
      if (!elf || !*elf) continue;
      const std::string path = "/" + at->path().lexically_relative(layer).string();
      m_by_name.emplace((*elf)->soname.empty() ? name : (*elf)->soname, path);
      m_by_name.emplace(name, path);
      m_by_path.emplace(path, m_objects.size());
      m_objects.push_back({path, std::move(**elf)});
      m_reporter.progress({.what = "reading libraries",
                           .done = m_objects.size(),
                           .total = {},
                           .unit = base::Unit::items,
                           .detail = {}});
    }
  }

  // Libraries that an extension module needs, and those that they need: these must be loadable.
  void note_needed(const Object& object) {
    if (!is_extension_module(object.path)) return;
    std::vector<const Object*> left{&object};
    while (!left.empty()) {
      const Object& next = *left.back();
      left.pop_back();
      if (!m_must_load.insert(next.path).second) continue;
      for (const std::string& library : next.elf.needed) {
        const auto path = m_by_name.find(library);
        const auto other = path == m_by_name.end() ? m_by_path.end() : m_by_path.find(path->second);
        if (other != m_by_path.end()) left.push_back(&m_objects[other->second]);
      }
    }
  }

  void check(const Object& object) {
    for (const std::string& library : object.elf.needed) {
      if (std::ranges::find(k_drivers_own, library) != k_drivers_own.end()) continue;
      const auto file = resolve(object, library);
      // What another package has loaded already is taken by its name: torch's own libraries for torchvision's.
      if (!file && m_by_name.contains(library)) continue;
      if (!file)
        report(object, fmt::format("{} needs {}, which is not in the image", object.path, library));
      else
        check_versions(object, library, *file);
    }
  }

  void check_versions(const Object& object, const std::string& library, const fs::path& file) {
    for (const NeededVersion& needed : object.elf.needed_versions)
      if (needed.library == library && !versions_of(file).contains(needed.version) && !versions_of(file).empty())
        report(object, fmt::format("{} needs {} of {}, which the image's lacks", object.path, needed.version, library));
  }

  const std::set<std::string>& versions_of(const fs::path& file) {
    const auto known = m_versions.find(file.string());
    if (known != m_versions.end()) return known->second;
    auto elf = read_elf(file);
    return m_versions.emplace(file.string(), elf && *elf ? (*elf)->versions : std::set<std::string>()).first->second;
  }

  std::vector<std::string> folders_of(const Object& object) const {
    const std::string origin = fs::path(object.path).parent_path().string();
    std::vector<std::string> folders;
    const auto add = [&](const std::string& list) {
      for (std::string folder : split_path(list)) {
        for (const std::string_view word : {"$ORIGIN", "${ORIGIN}"})
          if (const auto place = folder.find(word); place != std::string::npos)
            folder.replace(place, word.size(), origin);
        folders.push_back(fs::path(folder).lexically_normal().string());
      }
    };
    if (object.elf.runpath.empty()) add(object.elf.rpath);
    if (const auto path = m_image.environment.find("LD_LIBRARY_PATH"); path != m_image.environment.end())
      add(path->second);
    add(object.elf.runpath);
    folders.insert(folders.end(), k_system_folders.begin(), k_system_folders.end());
    return folders;
  }

  std::optional<fs::path> resolve(const Object& object, const std::string& library) const {
    for (const std::string& folder : folders_of(object))
      if (auto found = m_inside.find(folder + "/" + library)) return found;
    return std::nullopt;
  }

  void report(const Object& object, std::string what) {
    auto& list = m_must_load.contains(object.path) ? m_failures : m_warnings;
    if (std::ranges::find(list, what) == list.end()) list.push_back(std::move(what));
  }

  const Image& m_image;
  Inside m_inside;
  Reporter& m_reporter;
  std::vector<Object> m_objects;
  std::unordered_map<std::string, std::string> m_by_name;  // soname or file name → path inside
  std::unordered_map<std::string, std::size_t> m_by_path;
  std::unordered_set<std::string> m_must_load;
  std::map<std::string, std::set<std::string>> m_versions;
  std::vector<std::string> m_failures, m_warnings;
};

}  // namespace

LevelResult check_linkage(const Image& image, Reporter& reporter) {
  return LinkageCheck(image, reporter).run();
}

}  // namespace startrail::image
