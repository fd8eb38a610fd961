#include "sandbox/mount_plan.hpp"

#include <fcntl.h>
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
#include "sandbox/linux/trusted_path.hpp"

namespace startrail::sandbox {
namespace {

using base::Fd;

struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
  auto operator<=>(const Owner&) const = default;
};

Result<Owner> owner_of(const Fd& opened, const fs::path& path) {
  struct stat status{};
  if (::fstat(opened.get(), &status) == 0) return Owner{status.st_uid, status.st_gid};
  return fail(base::errno_error(fmt::format("cannot mount {}", path.string()), errno));
}

Result<Owner> owner_at(const fs::path& path) {
  const Fd opened = TRY(open_trusted(path, Mode::root));
  return owner_of(opened, path);
}

// One user namespace per owner, made when the first mount needs it.
class IdMaps {
 public:
  explicit IdMaps(unsigned inside) : m_inside(inside) {}
  Result<int> for_owner(const Owner& owner) {
    const auto found = m_namespaces.find(owner);
    if (found != m_namespaces.end()) return found->second.get();
    Fd made =
        TRY(user_namespace_with({.file_uid = owner.uid, .uid = m_inside, .file_gid = owner.gid, .gid = m_inside}));
    return m_namespaces.emplace(owner, std::move(made)).first->second.get();
  }
  [[nodiscard]] bool empty() const { return m_namespaces.empty(); }

 private:
  unsigned m_inside;
  std::map<Owner, Fd> m_namespaces;
};

// The mount's source, opened once: what is mapped, cloned and compared is one and the same.
Result<Fd> open_source(const Mount& mount, Mode mode) {
  Fd source = TRY(open_trusted(mount.source, mode));
  // A user namespace shows other owners than there are; rootless, the caller's own rights are the bound anyway.
  if (!mount.expected || mode != Mode::root) return source;
  const Place found = TRY(place_of(source, mount.source));
  if (found == *mount.expected) return source;
  return fail(base::error(ErrorCode::conflict,
                          fmt::format("{} is not the folder that the run was asked for", mount.source.string()))
                  .with_context("it was replaced, or given to another user, before the container started")
                  .with_hint("start the run again"));
}

Result<PlannedMount> mapped(const Mount& mount, IdMaps& maps) {
  const Fd source = TRY(open_source(mount, Mode::root));
  TreeOptions options{.access = mount.access};
  if (mount.ownership == Ownership::caller) {
    const Owner owner = TRY(owner_of(source, mount.source));
    options.idmap_namespace = TRY(maps.for_owner(owner));
  }
  return PlannedMount{.tree = TRY(clone_tree(source, mount.source, options)), .target = mount.target};
}

std::vector<Mount> by_depth(const std::vector<Mount>& mounts) {
  auto sorted = mounts;
  std::ranges::stable_sort(sorted, {}, [](const Mount& mount) { return mount.target; });
  return sorted;
}

Result<MountPlan> plan_mapped(const ContainerSpec& spec, const std::vector<Mount>& mounts) {
  MountPlan plan{.identity = mapped_identity(spec.identity_of.empty() ? spec.id : spec.identity_of), .mounts = {}};
  IdMaps maps(plan.identity.uid);
  for (const auto& mount : mounts) plan.mounts.push_back(TRY(mapped(mount, maps)));
  if (!maps.empty()) {
    const Owner owner = spec.owner_reference.empty() ? Owner{} : TRY(owner_at(spec.owner_reference));
    plan.identity.how += fmt::format(", workspace idmapped to uid {}", owner.uid);
  }
  return plan;
}

Result<MountPlan> plan_unmapped(const std::vector<Mount>& mounts, Mode mode, Identity identity) {
  MountPlan plan{.identity = std::move(identity), .mounts = {}};
  for (const auto& mount : mounts) {
    const Fd source = TRY(open_source(mount, mode));
    plan.mounts.push_back(
        {.tree = TRY(clone_tree(source, mount.source, {.access = mount.access})), .target = mount.target});
  }
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

// What the user mounts decides what lies below: a mount point of ours would have to be made in their folder.
bool lies_in_a_mount(const ContainerSpec& spec, const std::string& target) {
  return std::ranges::any_of(spec.mounts, [&](const Mount& mount) {
    const std::string normal = (fs::path(mount.target) / "").lexically_normal().string();
    return target.starts_with(normal) || target + "/" == normal;
  });
}

Result<void> add_file(MountPlan& plan, const fs::path& path, std::string target, Mode mode) {
  const Fd source = TRY(open_trusted(path, mode));
  plan.mounts.push_back({.tree = TRY(clone_tree(source, path, {.access = Access::read_only, .with_submounts = false})),
                         .target = std::move(target)});
  return {};
}

}  // namespace

Result<MountPlan> plan_mounts(const ContainerSpec& spec, Mode mode, uid_t caller_uid, gid_t caller_gid) {
  for (const auto& mount : spec.mounts) TRY(check_target(mount.target));
  const auto mounts = by_depth(spec.mounts);
  if (mode != Mode::root) return plan_unmapped(mounts, mode, caller_identity(caller_uid, caller_gid));
  auto plan = plan_mapped(spec, mounts);
  if (plan || plan.error().code != ErrorCode::unsupported) return plan;
  const fs::path reference = spec.owner_reference.empty() ? spec.scratch : spec.owner_reference;
  const Owner owner = TRY(owner_at(reference));
  return plan_unmapped(mounts, mode,
                       TRY_CONTEXT(unmapped_identity(reference, owner.uid, owner.gid), plan.error().message));
}

Result<void> add_own_mounts(MountPlan& plan, const ContainerSpec& spec, Mode mode) {
  constexpr const char* k_certificates = "/etc/ssl/certs/ca-certificates.crt";
  for (const auto& file : spec.gpus.mounts) TRY(add_file(plan, file.host_path, file.container_path, mode));
  if (const auto certificates = host_certificates(); certificates && !lies_in_a_mount(spec, k_certificates))
    TRY(add_file(plan, *certificates, k_certificates, mode));
  if (sys_from_host(mode, spec.network)) {
    const Fd sys = TRY(open_trusted("/sys", mode));
    plan.mounts.push_back({.tree = TRY(clone_tree(sys, "/sys", {.access = Access::read_only})), .target = "/sys"});
  }
  return add_file(plan, TRY(init_program()), k_init_inside, mode);
}

}  // namespace startrail::sandbox
