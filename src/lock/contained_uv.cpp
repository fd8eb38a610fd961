#include "lock/contained_uv.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "base/files.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::lock {
namespace {

using enum sandbox::Access;
using enum sandbox::Ownership;

constexpr const char* k_cache_inside = "/var/cache/uv";
constexpr const char* k_certificates_inside = "/etc/startrail-certificates.crt";

std::string fresh_id() {
  static std::atomic<int> s_count{0};
  return fmt::format("build-{}-{}", ::getpid(), s_count++);
}

sandbox::Mount shown(const fs::path& source, const char* target) {
  return {.source = source, .target = target, .access = read_only, .ownership = as_it_is};
}

sandbox::Mount lent(const fs::path& source, const char* target) {
  return {.source = source, .target = target, .access = read_write, .ownership = caller};
}

// Folders of wheels on this host get a place inside, and the index settings say so.
std::vector<sandbox::Mount> mount_find_links(UvIndexes& indexes) {
  std::vector<sandbox::Mount> mounts;
  for (auto& place : indexes.find_links) {
    if (place.find("://") != std::string::npos) continue;
    const std::string inside = fmt::format("/opt/startrail/find-links/{}", mounts.size());
    mounts.push_back(shown(place, inside.c_str()));
    place = inside;
  }
  return mounts;
}

sandbox::ContainerSpec spec_of(const ContainedCall& call) {
  sandbox::ContainerSpec spec;
  spec.id = fresh_id();
  spec.layers = call.layers.empty() ? std::vector<fs::path>{call.base} : call.layers;
  spec.scratch = call.work.parent_path() / (call.work.filename().string() + "." + spec.id);
  spec.argv = call.argv;
  UvIndexes indexes = call.indexes;
  spec.mounts = mount_find_links(indexes);
  spec.environment = contained_uv_environment(base::current_environment(), indexes);
  const std::string temporary = std::string(k_work_inside) + "/tmp";
  spec.environment["UV_CACHE_DIR"] = k_cache_inside;
  spec.environment["TMPDIR"] = temporary;
  spec.environment["HOME"] = temporary;
  spec.directory = k_work_inside;
  spec.scratch_after = sandbox::Scratch::discarded;
  spec.owner_reference = call.work;
  spec.mounts.push_back(shown(call.uv, k_uv_inside));
  spec.mounts.push_back(lent(call.work, k_work_inside));
  spec.mounts.push_back(lent(call.cache, k_cache_inside));
  if (call.project) spec.mounts.push_back(lent(*call.project, k_project_inside));
  for (const auto& [source, target] : call.shown) spec.mounts.push_back(shown(source, target.c_str()));
  std::error_code ignored;
  if (fs::is_regular_file(call.certificates, ignored)) {
    spec.mounts.push_back(shown(call.certificates, k_certificates_inside));
    spec.environment["SSL_CERT_FILE"] = k_certificates_inside;
  }
  for (const auto& [name, value] : call.variables) spec.environment.insert_or_assign(name, value);
  return spec;
}

}  // namespace

Result<base::ProcessResult> run_contained_uv(const ContainedCall& call, const machine::Machine& machine) {
  const auto support = TRY_CONTEXT(sandbox::probe(machine), "a package must be built from source, which runs its code");
  TRY(base::make_directories(call.cache));
  TRY(base::make_directories(call.work / "tmp"));
  const sandbox::ContainerSpec spec = spec_of(call);
  TRY(base::make_directories(spec.scratch));
  auto result = sandbox::run_contained(support, spec, {}, call.patience);
  (void)base::remove_tree(spec.scratch);
  return result;
}

}  // namespace startrail::lock
