#include "lock/own_code.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "lock/contained_uv.hpp"
#include "lock/project_copy.hpp"
#include "lock/stub_wheel.hpp"

namespace startrail::lock {
namespace {

// The root is part of the name, because the name is what tells one such image from another.
std::string name_of_path(const std::string& root) {
  return root == "." ? "startrail-workspace" : "startrail-workspace-" + project::normalized_name(root);
}

}  // namespace

Result<std::optional<LockedPackage>> own_package(const project::Requirements& needs, const Lock& lock) {
  if (!needs.own_package) return std::nullopt;
  const auto is_it = [&](const LockedPackage& package) {
    return package.name == needs.own_package->value ||
           (package.kind == PackageKind::directory && package.directory == ".");
  };
  if (std::ranges::any_of(lock.packages, is_it)) return std::nullopt;
  LockedPackage package{.name = needs.own_package->value, .kind = PackageKind::directory};
  package.directory = ".";
  package.editable = project::Editable::yes;
  package.artifact.sha256 = TRY(metadata_digest(needs.folder));
  return package;
}

LockedPackage import_path(const std::string& root) {
  LockedPackage package{.name = name_of_path(root), .version = "0", .kind = PackageKind::directory};
  package.directory = ".";
  package.editable = project::Editable::yes;
  package.import_root = root;
  return package;
}

Result<fs::path> write_import_path(const LockedPackage& package, const fs::path& folder) {
  const fs::path inside = (fs::path(k_project_inside) / package.import_root / "").lexically_normal().parent_path();
  return write_stub_wheel(folder, package.name, package.version, {{package.name + ".pth", inside.string() + "\n"}});
}

}  // namespace startrail::lock
