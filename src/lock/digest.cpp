#include <algorithm>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "lock/lock.hpp"

namespace startrail::lock {
namespace {

std::string_view kind_name(PackageKind kind) {
  switch (kind) {
    case PackageKind::wheel: return "wheel";
    case PackageKind::sdist: return "sdist";
    case PackageKind::vcs: return "vcs";
    case PackageKind::archive: return "archive";
    case PackageKind::directory: return "directory";
  }
  return "";
}

// Content, never addresses: two mirrors that serve the same bytes give the same image.
Json identity_of(const LockedPackage& package) {
  const bool from_repository = package.kind == PackageKind::vcs;
  return Json::array({package.name, package.version, std::string(kind_name(package.kind)),
                      from_repository ? package.vcs_commit : package.artifact.sha256, package.subdirectory});
}

}  // namespace

std::string digest(const Lock& lock) {
  Json packages = Json::array();
  auto sorted = lock.packages;
  std::ranges::sort(sorted, {}, &LockedPackage::name);
  for (const auto& package : sorted) {
    // An editable is a .pth to the workspace, outside of the image's identity.
    if (package.editable == project::Editable::yes) continue;
    packages.push_back(identity_of(package));
  }
  auto system_packages = lock.system_packages;
  std::ranges::sort(system_packages);
  Json content{{"schema", 1},
               {"python", lock.python},
               {"suite", lock.suite},
               {"base", lock.base_recipe},
               {"system-packages", system_packages},
               {"packages", packages}};
  // Said only where there is something to say, so that other locks keep the digest that they had before.
  if (!lock.built_with_torch.empty()) content["built-with-torch"] = {lock.built_with_torch, lock.build_architectures};
  if (!lock.environment.empty()) content["environment"] = lock.environment;
  return base::sha256_hex(base::to_compact_text(content));
}

}  // namespace startrail::lock
