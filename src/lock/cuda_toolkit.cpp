#include "lock/cuda_toolkit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "lock/contained_uv.hpp"
#include "lock/uv_failure.hpp"
#include "lock/workbench.hpp"

namespace startrail::lock {
namespace {

// NVIDIA's wheels spread the parts over folders of their own, or, from CUDA 13 on, have them in one; Debian's package
// has them where Debian wants them. nvcc finds the rest by its profile, relative to itself.
constexpr std::string_view k_script = R"python(
import json
import os
import pathlib
import shutil
import subprocess
import sys

PROFILE = """\
TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
SYSTEM_INCLUDES += "-isystem" "$(TOP)/include/cccl" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"
CUDAFE_FLAGS +=
PTXAS_FLAGS +=
"""
PROGRAMS = ["__nvcc_device_query", "bin2c", "cudafe++", "cuobjdump", "fatbinary", "nvlink", "ptxas"]

with open(sys.argv[1]) as file:
    request = json.load(file)
work = pathlib.Path(request["work"])
home = work / "cuda"


def merge(source, target):
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


ended = subprocess.run([request["uv"], "pip", "install", "--quiet", "--no-config", "--color", "never", "--no-deps",
                        "--only-binary", ":all:", "--python", sys.executable, "--target", str(work / "wheels"),
                        *request["wheels"]])
if ended.returncode != 0:
    sys.exit(1)
for part in sorted((work / "wheels" / "nvidia").iterdir()):
    for name, place in (("bin", "bin"), ("include", "include"), ("lib", "lib64"), ("nvvm", "nvvm")):
        merge(part / name, home / place)
debian = work / "debian" / "usr"
own = debian / "lib" / "nvidia-cuda-toolkit"
for name in PROGRAMS:
    merge(debian / "bin" / name, home / "bin" / name)
merge(own / "bin" / "nvcc", home / "bin" / "nvcc")
merge(own / "bin" / "crt", home / "bin" / "crt")
merge(own / "bin" / "cicc", home / "nvvm" / "bin" / "cicc")
merge(own / "libdevice", home / "nvvm" / "libdevice")
(home / "bin" / "nvcc.profile").unlink(missing_ok=True)
(home / "bin" / "nvcc.profile").write_text(PROFILE)
for library in (home / "lib64").glob("lib*.so.*"):
    link = library.with_name(library.name.partition(".so.")[0] + ".so")
    if not link.exists():
        link.symlink_to(library.name)
(home / "lib").symlink_to("lib64")
for folder in (home / "bin", home / "nvvm" / "bin"):
    for program in folder.glob("*"):
        if program.is_file() and program.suffix != ".profile":
            program.chmod(0o755)
(work / "try.cu").write_text("#include <cuda_runtime.h>\n__global__ void tried() {}\n")
tried = subprocess.run([str(home / "bin" / "nvcc"), "-cuda", "-allow-unsupported-compiler", "-o", str(work / "try.ii"),
                        str(work / "try.cu")], stdout=sys.stderr)
sys.exit(tried.returncode)
)python";

std::string key_of(const Toolkit& toolkit) {
  const std::string parts =
      fmt::format("1 {} {} {}", fmt::join(toolkit.wheels, " "), toolkit.debian_suite, toolkit.debian_package);
  return fmt::format("{}-{}", toolkit.cuda, base::sha256_hex(parts).substr(0, 16));
}

Result<void> assemble(const Toolkit& toolkit, const SourceBuild& build, const fs::path& work,
                      const machine::Machine& machine, Reporter& reporter) {
  const std::string inside = k_work_inside;
  const Json request{{"work", inside}, {"uv", k_uv_inside}, {"wheels", toolkit.wheels}};
  TRY(base::write_file_atomic(work / "request.json", base::to_compact_text(request)));
  TRY(base::write_file_atomic(work / "assemble.py", k_script));
  const ContainedCall call{.base = build.base,
                           .uv = TRY(ensure_uv(build.state_root, reporter)),
                           .work = work,
                           .cache = build.state_root / "cache" / ("uv-" + build.suite),
                           .certificates = index_configuration().certificates,
                           .indexes = build.indexes,
                           .argv = {"/usr/bin/python3", inside + "/assemble.py", inside + "/request.json"}};
  const auto ended = TRY(run_contained_uv(call, machine));
  if (ended.succeeded()) return {};
  const UvFailure failure = parse_build_output(ended.errors + ended.output, "");
  Error reason = base::error(ErrorCode::refused, fmt::format("the compiler of CUDA {} can't be put together: {}",
                                                             toolkit.cuda, failure.reason));
  reason.detail = ended.errors;
  return fail(
      std::move(reason).with_hint(fmt::format("check that the package index has {}", fmt::join(toolkit.wheels, ", "))));
}

}  // namespace

Result<fs::path> ensure_toolkit(const Toolkit& toolkit, const SourceBuild& build, const machine::Machine& machine,
                                Reporter& reporter) {
  const fs::path folder = build.state_root / "cache" / "cuda";
  TRY(base::make_directories(folder));
  const std::string key = key_of(toolkit);
  const auto held = TRY(base::FileLock::acquire(folder / ("." + key + ".lock")));
  std::error_code ignored;
  if (fs::exists(folder / key / "bin" / "nvcc", ignored)) return folder / key;
  reporter.step(fmt::format("putting together the compiler of CUDA {}", toolkit.cuda));
  const Workbench bench = TRY(Workbench::make(build.state_root));
  if (!toolkit.debian_package.empty())
    TRY(build.provider->unpack_package(toolkit.debian_suite, toolkit.debian_package, bench.path() / "debian",
                                       reporter));
  TRY(assemble(toolkit, build, bench.path(), machine, reporter));
  fs::rename(bench.path() / "cuda", folder / key, ignored);
  if (ignored) return fail(base::errno_error("cannot write " + (folder / key).string(), ignored.value()));
  return folder / key;
}

}  // namespace startrail::lock
