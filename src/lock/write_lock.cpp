// PEP 751, written so that equal locks are equal byte for byte and diffs stay small: one field a line, sorted by name.
#include <fmt/format.h>

#include <algorithm>

#include "base/document.hpp"
#include "base/files.hpp"
#include "lock/lock.hpp"
#include "lock/lock_text.hpp"

namespace startrail::lock {
namespace {

using base::toml_quote;

std::string array_of(const std::vector<std::string>& texts) {
  std::string items;
  for (const auto& text : texts) items += (items.empty() ? "" : ", ") + toml_quote(text);
  return "[" + items + "]";
}

std::string lines_of(const std::vector<std::string>& texts) {
  if (texts.empty()) return "[]";
  std::string items;
  for (const auto& text : texts) items += "    " + toml_quote(text) + ",\n";
  return "[\n" + items + "]";
}

std::string pair_of(std::string_view key, std::string_view value) {
  return value.empty() ? "" : fmt::format("{} = {}\n", key, toml_quote(value));
}

std::string inline_pair(std::string_view key, std::string_view value) {
  return value.empty() ? "" : fmt::format("{} = {}, ", key, toml_quote(value));
}

std::string inline_artifact(const Artifact& artifact, std::string_view subdirectory) {
  std::string text = "{ ";
  text += inline_pair("name", artifact.filename);
  text += inline_pair("url", without_userinfo(artifact.url));
  text += inline_pair("path", artifact.path);
  if (artifact.size.count > 0) text += fmt::format("size = {}, ", artifact.size.count);
  text += inline_pair("subdirectory", subdirectory);
  return text + fmt::format("hashes = {{ sha256 = {} }} }}", toml_quote(artifact.sha256));
}

// `archive` has no name of its own in PEP 751.
std::string inline_archive(const LockedPackage& package) {
  Artifact nameless = package.artifact;
  nameless.filename.clear();
  return inline_artifact(nameless, package.subdirectory);
}

std::string inline_vcs(const LockedPackage& package) {
  return "{ " + inline_pair("type", package.vcs_type) + inline_pair("url", without_userinfo(package.vcs_url)) +
         inline_pair("subdirectory", package.subdirectory) +
         fmt::format("commit-id = {} }}", toml_quote(package.vcs_commit));
}

std::string inline_directory(const LockedPackage& package) {
  std::string text = "{ path = " + toml_quote(package.directory);
  if (package.editable == project::Editable::yes) text += ", editable = true";
  if (!package.artifact.sha256.empty()) text += ", tree-sha256 = " + toml_quote(package.artifact.sha256);
  return text + " }";
}

std::string package_table(const LockedPackage& package) {
  std::string text = "\n[[packages]]\n" + pair_of("name", package.name) + pair_of("version", package.version) +
                     pair_of("index", without_userinfo(package.index));
  switch (package.kind) {
    case PackageKind::wheel: return text + "wheels = [" + inline_artifact(package.artifact, "") + "]\n";
    case PackageKind::sdist: return text + "sdist = " + inline_artifact(package.artifact, "") + "\n";
    case PackageKind::archive: return text + "archive = " + inline_archive(package) + "\n";
    case PackageKind::vcs: return text + "vcs = " + inline_vcs(package) + "\n";
    case PackageKind::directory: return text + "directory = " + inline_directory(package) + "\n";
  }
  return text;
}

std::string inputs_of(const Lock& lock) {
  std::string text = "inputs = [\n";
  for (const auto& input : lock.inputs)
    text += fmt::format("    {{ file = {}, sha256 = {} }},\n", toml_quote(input.file), toml_quote(input.sha256));
  return text + "]\n";
}

std::string tool_table(const Lock& lock) {
  std::string text = "\n[tool.startrail]\n" + fmt::format("schema = {}\n", lock.schema);
  text += pair_of("python", lock.python) + pair_of("suite", lock.suite);
  text += pair_of("base-recipe", lock.base_recipe) + pair_of("base-digest", lock.base_digest);
  text += fmt::format("system-packages = {}\n", array_of(lock.system_packages));
  text += pair_of("build", lock.build == project::Build::cpu ? "cpu" : "gpu");
  text += pair_of("framework", lock.framework) + pair_of("framework-version", lock.framework_version);
  text += pair_of("cuda", lock.cuda) + pair_of("cudnn", lock.cudnn) + pair_of("nccl", lock.nccl);
  text += pair_of("driver-floor", lock.driver_floor);
  text += fmt::format("architectures = {}\n", array_of(lock.architectures));
  if (!lock.built_with_torch.empty()) {
    text += fmt::format("built-with-torch = {}\n", array_of(lock.built_with_torch));
    text += fmt::format("build-architectures = {}\n", array_of(lock.build_architectures));
  }
  if (!lock.environment.empty()) text += "environment = " + lines_of(lock.environment) + "\n";
  for (const auto& package : lock.packages) text += pair_of("import-root", package.import_root);
  text += pair_of("settings-digest", lock.settings_digest);
  text += "notes = " + lines_of(lock.notes) + "\n";
  return text + inputs_of(lock);
}

}  // namespace

std::string to_toml(const Lock& lock) {
  auto packages = lock.packages;
  std::erase_if(packages, [](const LockedPackage& package) { return !package.import_root.empty(); });
  std::ranges::sort(packages, {}, &LockedPackage::name);
  std::string text = "# Written by `trail lock`; `trail lock --upgrade` renews it.\n";
  text += "lock-version = \"1.0\"\n";
  text += fmt::format(
      "environments = [\"sys_platform == 'linux' and platform_machine == 'x86_64' and "
      "python_version == '{}'\"]\n",
      lock.python);
  text += fmt::format("requires-python = \"=={}.*\"\n", lock.python);
  text += "created-by = \"startrail\"\n";
  if (packages.empty()) text += "packages = []\n";
  for (const auto& package : packages) text += package_table(package);
  return text + tool_table(lock);
}

Result<void> write_lock(const Lock& lock, const fs::path& file) {
  return base::write_file_atomic(file, to_toml(lock));
}

}  // namespace startrail::lock
