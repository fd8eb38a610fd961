#include "image/source_build.hpp"

#include "base/files.hpp"
#include "image/base_provider.hpp"
#include "lock/source_wheel.hpp"

namespace startrail::image {

Result<fs::path> build_wheel(const lock::LockedPackage& package, const SourceBuild& build,
                             const machine::Machine& machine, Reporter& reporter) {
  const lock::BaseProvider provider = base_provider(build.state_root / "store", machine);
  const lock::SourceBuild source{.suite = build.suite,
                                 .base = build.base,
                                 .lock_directory = build.lock_directory,
                                 .state_root = build.state_root,
                                 .indexes = lock::uv_indexes(lock::index_configuration(), {}, {}),
                                 .lock = build.lock,
                                 .provider = &provider};
  const fs::path wheel = TRY(lock::build_source_wheel(package, source, machine, reporter));
  const fs::path target = build.output / wheel.filename();
  std::error_code failure;
  fs::copy_file(wheel, target, fs::copy_options::overwrite_existing, failure);
  if (failure) return fail(base::errno_error("cannot write " + target.string(), failure.value()));
  return target;
}

}  // namespace startrail::image
