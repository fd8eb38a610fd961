#include "image/lock_contents.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/http.hpp"
#include "base/json.hpp"
#include "image/wheel_tree.hpp"
#include "lock/project_copy.hpp"
#include "lock/torch_build.hpp"

namespace startrail::image {
namespace {

using lock::LockedPackage;
using lock::PackageKind;

// Where a file or folder beside the lock is, as code in the image sees it.
std::string address_inside(const std::string& path_from_lock) {
  return base::file_address((fs::path("/workspace") / path_from_lock).lexically_normal());
}

// PyPA "Recording the Direct URL Origin of installed distributions".
std::string direct_url_of(const LockedPackage& package) {
  Json json;
  switch (package.kind) {
    case PackageKind::vcs:
      json = Json{{"url", base::without_credentials(package.vcs_url)},
                  {"vcs_info", {{"vcs", package.vcs_type}, {"commit_id", package.vcs_commit}}}};
      break;
    case PackageKind::archive:
      json = Json{{"url", package.artifact.path.empty() ? base::without_credentials(package.artifact.url)
                                                        : address_inside(package.artifact.path)},
                  {"archive_info", {{"hashes", {{"sha256", package.artifact.sha256}}}}}};
      break;
    case PackageKind::directory: {
      const bool editable = package.editable == project::Editable::yes;
      json = Json{{"url", address_inside(package.directory)}, {"dir_info", {{"editable", editable}}}};
      break;
    }
    default: return "";
  }
  if (!package.subdirectory.empty()) json["subdirectory"] = package.subdirectory;
  return base::to_compact_text(json);
}

// The index's own address of the same bytes, for when the lock has none that works.
std::function<Result<std::string>()> index_look_up(const LockedPackage& package) {
  return [name = package.name, index = package.index, artifact = package.artifact]() -> Result<std::string> {
    const auto configured = lock::index_configuration();
    std::vector<std::string> indexes{configured.default_index};
    indexes.insert(indexes.end(), configured.extra_indexes.begin(), configured.extra_indexes.end());
    if (!index.empty()) indexes.insert(indexes.begin(), index);
    std::optional<Error> problem;
    for (const std::string& address : indexes) {
      const auto files = lock::index_files(address, name);
      if (!files) {
        if (!problem) problem = files.error();
        continue;
      }
      const auto found = std::ranges::find(*files, artifact.sha256, &lock::Artifact::sha256);
      if (found != files->end()) return found->url;
      const auto same_name = std::ranges::find(*files, artifact.filename, &lock::Artifact::filename);
      if (same_name != files->end()) return same_name->url;
    }
    if (problem) return base::fail(std::move(*problem));
    return base::fail(base::error(ErrorCode::not_found, fmt::format("the package index has no {}", artifact.filename))
                          .with_hint("`trail lock --upgrade` takes what the index has now"));
  };
}

Result<LockedWheel> wheel_of(const LockedPackage& package, const fs::path& lock_directory) {
  const lock::Artifact& artifact = package.artifact;
  if (artifact.sha256.empty())
    return base::fail(ErrorCode::corrupt, fmt::format("the lock has no SHA-256 of {}", artifact.filename));
  LockedWheel wheel{.source = {.name = package.name,
                               .version = package.version,
                               .filename = artifact.filename,
                               .sha256 = artifact.sha256,
                               .size = artifact.size.count,
                               .address = artifact.url,
                               .look_up = {}},
                    .direct_url = direct_url_of(package)};
  if (!artifact.path.empty()) {
    const fs::path file = fs::absolute(lock_directory / artifact.path).lexically_normal();
    wheel.source.address = base::file_address(file);
    std::error_code failed;
    if (const auto size = fs::file_size(file, failed); !failed) wheel.source.size = size;
  } else if (package.kind == PackageKind::wheel) {
    wheel.source.look_up = index_look_up(package);
  }
  return wheel;
}

// What decides how an editable's wheel looks: its project files, and which packages there are to be found.
Result<std::string> editable_digest(const fs::path& folder) {
  base::Sha256 hash;
  for (const char* name : {"pyproject.toml", "setup.py", "setup.cfg"}) {
    const auto content = base::read_file(folder / name);
    hash.update(fmt::format("{} {}\n", name, content ? base::sha256_hex(*content) : "absent"));
  }
  std::vector<std::string> folders;
  for (const fs::path& place : {folder, folder / "src"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      const std::string name = entry.path().filename().string();
      const bool generated = name.starts_with('.') || name == "__pycache__" || name.ends_with(".egg-info");
      if (!generated && entry.is_directory(ignored))
        folders.push_back(entry.path().lexically_relative(folder).string());
    }
  }
  std::ranges::sort(folders);
  for (const std::string& name : folders) hash.update(name + "\n");
  return base::to_hex(hash.finish());
}

Result<std::string> content_of(const LockedPackage& package, const fs::path& lock_directory) {
  if (package.kind == PackageKind::vcs) return package.vcs_commit + " " + package.vcs_url;
  if (package.kind != PackageKind::directory) return package.artifact.sha256;
  if (lock_directory.empty()) return package.artifact.sha256;
  const fs::path folder = lock_directory / package.directory;
  if (!fs::is_directory(folder))
    return base::fail(ErrorCode::not_found,
                      fmt::format("{}, from which {} is built, is not there", folder.string(), package.name));
  return package.editable == project::Editable::yes ? editable_digest(folder) : lock::tree_digest(folder);
}

Result<LockedBuild> build_of(const LockedPackage& package, const lock::Lock& lock, const fs::path& lock_directory,
                             const Store& store) {
  const bool editable = package.editable == project::Editable::yes;
  const std::string content = TRY(content_of(package, lock_directory));
  Json decides{{"schema", 1},
               {"name", package.name},
               {"content", content},
               {"subdirectory", package.subdirectory},
               {"directory", editable ? package.directory : ""},
               {"editable", editable},
               {"python", lock.python},
               {"base", lock.base_recipe}};
  if (lock::is_built_with_torch(lock, package.name)) decides["torch"] = TRY(lock::torch_build(lock)).identity;
  LockedBuild build{.package = package,
                    .key = base::sha256_hex(base::to_compact_text(decides)),
                    .sha256 = {},
                    .direct_url = direct_url_of(package)};
  if (const auto known = base::read_json_file(store.built(build.key))) {
    const std::string sha256 = base::string_at(*known, "wheel");
    if (store.has_wheel(sha256)) build.sha256 = sha256;
  }
  return build;
}

}  // namespace

Result<LockContents> lock_contents(const lock::Lock& lock, const fs::path& lock_directory, const Store& store) {
  LockContents contents;
  for (const LockedPackage& package : lock.packages) {
    if (is_wheel(package)) {
      contents.wheels.push_back(TRY(wheel_of(package, lock_directory)));
      continue;
    }
    const bool editable = package.editable == project::Editable::yes;
    (editable ? contents.editables : contents.builds).push_back(TRY(build_of(package, lock, lock_directory, store)));
  }
  return contents;
}

Result<void> remember_build(const Store& store, const LockedBuild& build, const std::string& sha256) {
  const Json json{{"wheel", sha256}, {"name", build.package.name}, {"version", build.package.version}};
  return base::write_file_atomic(store.built(build.key), base::to_compact_text(json) + "\n");
}

Manifest main_manifest(const lock::Lock& lock, const LockContents& contents, const std::string& base_recipe,
                       const std::string& base_digest) {
  Manifest manifest{.lock = lock::digest(lock),
                    .python = lock.python,
                    .base_recipe = base_recipe,
                    .base_digest = base_digest,
                    .wheels = {},
                    .environment = lock.environment,
                    .parent = {}};
  for (const LockedWheel& wheel : contents.wheels)
    manifest.wheels.push_back({wheel.source.name, wheel.source.sha256, wheel.direct_url});
  for (const LockedBuild& build : contents.builds)
    manifest.wheels.push_back({build.package.name, build.sha256, build.direct_url});
  std::ranges::sort(manifest.wheels, {}, &ManifestWheel::name);
  return manifest;
}

}  // namespace startrail::image
