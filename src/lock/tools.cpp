#include <unistd.h>

#include "base/files.hpp"
#include "base/process.hpp"
#include "lock/lock.hpp"
#include "lock/pinned_wheel.hpp"

namespace startrail::lock {
namespace {

// The static x86_64 build; 0.13.9 resolves, and writes PEP 751.
const PinnedWheel& uv_wheel() {
  static const PinnedWheel s_wheel{
      .project = "uv",
      .version = "0.13.9",
      .sha256 = "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
      .entries = {{.name = "uv-0.13.9.data/scripts/uv", .file = "uv", .mode = 0755}},
  };
  return s_wheel;
}

const PinnedWheel& module_map_wheel() {
  static const PinnedWheel s_wheel{
      .project = "pipreqs",
      .version = "0.5.0",
      .sha256 = "0809f6217028e35785f80e90217e18043e58c99ba28175e28320f9074dd03874",
      .entries = {{.name = "pipreqs/mapping", .file = "mapping"}, {.name = "pipreqs/stdlib", .file = "stdlib"}},
  };
  return s_wheel;
}

}  // namespace

Result<fs::path> ensure_uv(const fs::path& state_root, Reporter& reporter) {
  if (const auto chosen = base::environment_variable("STARTRAIL_UV"); chosen && !chosen->empty()) {
    if (::access(chosen->c_str(), X_OK) == 0) return fs::path(*chosen);
    return fail(ErrorCode::not_found, "STARTRAIL_UV names " + *chosen + ", which is no program");
  }
  const fs::path folder = TRY_CONTEXT(ensure_pinned_wheel(uv_wheel(), state_root, reporter),
                                      "uv resolves the packages; it is fetched once");
  return folder / "uv";
}

Result<ModuleMap> ensure_module_map(const fs::path& state_root, Reporter& reporter) {
  const fs::path folder = TRY_CONTEXT(ensure_pinned_wheel(module_map_wheel(), state_root, reporter),
                                      "pipreqs' map names the package of each import; it is fetched once");
  return ModuleMap{.mapping = folder / "mapping", .standard_library = folder / "stdlib"};
}

}  // namespace startrail::lock
