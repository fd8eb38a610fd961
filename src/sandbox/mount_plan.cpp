#include "sandbox/mount_plan.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include "sandbox/bundle.hpp"
#include "sandbox/init_program.hpp"
#include "sandbox/linux/mount_calls.hpp"

namespace startrail::sandbox {
namespace {

using base::Fd;

struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
  auto operator<=>(const Owner&) const = default;
};

Result<Owner> owner_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) return Owner{status.st_uid, status.st_gid};
  return fail(base::errno_error(fmt::format("cannot mount {}", path.string()), errno));
}

// One user namespace per owner, made when the first mount needs it.
class IdMaps {
 public:
  Result<int> for_owner(const Owner& owner) {
    const auto found = m_namespaces.find(owner);
    if (found != m_namespaces.end()) return found->second.get();
    Fd made = TRY(user_namespace_with(
        {.file_uid = owner.uid, .uid = k_unprivileged_id, .file_gid = owner.gid, .gid = k_unprivileged_id}));
    return m_namespaces.emplace(owner, std::move(made)).first->second.get();
  }
  [[nodiscard]] bool empty() const { return m_namespaces.empty(); }

 private:
  std::map<Owner, Fd> m_namespaces;
};

Result<PlannedMount> mapped(const Mount& mount, IdMaps& maps) {
  TreeOptions options{.access = mount.access};
  if (mount.ownership == Ownership::caller) {
    const Owner owner = TRY(owner_of(mount.source));
    options.idmap_namespace = TRY(maps.for_owner(owner));
  }
  return PlannedMount{.tree = TRY(clone_tree(mount.source, options)), .target = mount.target};
}

std::vector<Mount> by_depth(const std::vector<Mount>& mounts) {
  auto sorted = mounts;
  std::ranges::stable_sort(sorted, {}, [](const Mount& mount) { return mount.target; });
  return sorted;
}

Result<MountPlan> plan_mapped(const std::vector<Mount>& mounts, const fs::path& reference) {
  MountPlan plan{.identity = mapped_identity(), .mounts = {}};
  IdMaps maps;
  for (const auto& mount : mounts) plan.mounts.push_back(TRY(mapped(mount, maps)));
  if (!maps.empty()) {
    const Owner owner = reference.empty() ? Owner{} : TRY(owner_of(reference));
    plan.identity.how += fmt::format(", workspace idmapped to uid {}", owner.uid);
  }
  return plan;
}

Result<MountPlan> plan_unmapped(const std::vector<Mount>& mounts, Identity identity) {
  MountPlan plan{.identity = std::move(identity), .mounts = {}};
  for (const auto& mount : mounts)
    plan.mounts.push_back({.tree = TRY(clone_tree(mount.source, {.access = mount.access})), .target = mount.target});
  return plan;
}

// Debian's place first, then Fedora's and SUSE's.
std::optional<fs::path> host_certificates() {
  for (const char* file :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"}) {
    std::error_code missing;
    const fs::path real = fs::canonical(file, missing);
    if (!missing && ::access(real.c_str(), R_OK) == 0) return real;
  }
  return std::nullopt;
}

Result<void> add_file(MountPlan& plan, const fs::path& source, std::string target) {
  plan.mounts.push_back({.tree = TRY(clone_tree(source, {.access = Access::read_only, .with_submounts = false})),
                         .target = std::move(target)});
  return {};
}

}  // namespace

Result<MountPlan> plan_mounts(const ContainerSpec& spec, Mode mode, uid_t caller_uid, gid_t caller_gid) {
  for (const auto& mount : spec.mounts) TRY(check_target(mount.target));
  const auto mounts = by_depth(spec.mounts);
  if (mode != Mode::root) return plan_unmapped(mounts, caller_identity(caller_uid, caller_gid));
  auto plan = plan_mapped(mounts, spec.owner_reference);
  if (plan || plan.error().code != ErrorCode::unsupported) return plan;
  const fs::path reference = spec.owner_reference.empty() ? spec.scratch : spec.owner_reference;
  return plan_unmapped(mounts, TRY_CONTEXT(unmapped_identity(reference), plan.error().message));
}

Result<void> add_own_mounts(MountPlan& plan, const ContainerSpec& spec, Mode mode) {
  for (const auto& file : spec.gpus.mounts) TRY(add_file(plan, file.host_path, file.container_path));
  if (const auto certificates = host_certificates())
    TRY(add_file(plan, *certificates, "/etc/ssl/certs/ca-certificates.crt"));
  if (sys_from_host(mode, spec.network))
    plan.mounts.push_back({.tree = TRY(clone_tree("/sys", {.access = Access::read_only})), .target = "/sys"});
  return add_file(plan, TRY(init_program()), k_init_inside);
}

}  // namespace startrail::sandbox
