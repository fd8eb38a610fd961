#include "lock/torch_build.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "base/json.hpp"
#include "catalog/plain_toml.hpp"
#include "cuda_build_data.hpp"
#include "lock/suite.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

constexpr Bytes k_memory_of_a_job{4ULL << 30U};

struct SuiteCompilers {
  std::string suite;
  std::vector<int> gcc;  // its own first
};

struct Rules {
  std::vector<TorchPackage> packages;
  std::vector<Toolkit> toolkits;  // newest first
  std::vector<SuiteCompilers> compilers;
};

int number(std::string_view text) {
  return std::atoi(std::string(text).c_str());
}

Toolkit toolkit_from(const Json& item) {
  return {.cuda = base::string_at(item, "cuda"),
          .newest_gcc = number(base::string_at(item, "gcc")),
          .glibc = base::string_at(item, "glibc"),
          .wheels = base::strings_at(item, "wheels"),
          .debian_suite = base::string_at(item, "debian_suite"),
          .debian_package = base::string_at(item, "debian_package"),
          .oldest = base::string_at(item, "oldest"),
          .newest = base::string_at(item, "newest")};
}

// Compiled in, and read by a test: what fails here can only be a fault of the build.
Rules read_rules() {
  Rules rules;
  for (const auto& [name, text] : k_build_files) {
    const auto document = catalog::parse_plain_toml(text, name);
    if (!document) continue;
    for (const Json& item : base::member(document->root, "package"))
      rules.packages.push_back({.name = base::string_at(item, "name"),
                                .requirements = base::strings_at(item, "requires"),
                                .tools = base::strings_at(item, "tools")});
    for (const Json& item : base::member(document->root, "toolkit")) rules.toolkits.push_back(toolkit_from(item));
    for (const Json& item : base::member(document->root, "compilers")) {
      SuiteCompilers compilers{.suite = base::string_at(item, "suite"), .gcc = {}};
      for (const auto& version : base::strings_at(item, "gcc")) compilers.gcc.push_back(number(version));
      rules.compilers.push_back(std::move(compilers));
    }
  }
  return rules;
}

const Rules& rules() {
  static const Rules s_rules = read_rules();
  return s_rules;
}

const SuiteCompilers* compilers_of(std::string_view suite) {
  const auto found = std::ranges::find(rules().compilers, suite, &SuiteCompilers::suite);
  return found == rules().compilers.end() ? nullptr : &*found;
}

// Negative, 0, positive, as `left` is older than, equal to or newer than `right`: "9.0" is older than "10.0".
int compare(std::string_view left, std::string_view right) {
  const auto a = project::Version::parse(left);
  const auto b = project::Version::parse(right);
  if (!a || !b) return 0;
  return *a < *b ? -1 : *b < *a ? 1 : 0;
}

std::string major_of(std::string_view version) {
  return std::string(version.substr(0, version.find('.')));
}

const LockedPackage* torch_of(const Lock& lock) {
  const auto found = std::ranges::find(lock.packages, "torch", &LockedPackage::name);
  return found == lock.packages.end() ? nullptr : &*found;
}

bool has_cuda(const Lock& lock, const LockedPackage& torch) {
  return lock.build == project::Build::gpu && !lock.cuda.empty() && torch.version.find("+cpu") == std::string::npos;
}

// What the compiler knows of the list. Newer GPUs than it knows compile its newest code's PTX when they run it.
std::vector<std::string> known_to(const Toolkit& toolkit, const std::vector<std::string>& asked) {
  std::vector<std::string> known;
  bool beyond = false;
  for (const auto& architecture : asked) {
    if (compare(architecture, toolkit.newest) > 0) {
      beyond = true;
    } else if (compare(architecture, toolkit.oldest) >= 0) {
      known.push_back(architecture);
    }
  }
  if (beyond && (known.empty() || known.back() != toolkit.newest)) known.push_back(toolkit.newest);
  if (beyond) known.back() += "+PTX";
  return known;
}

std::unexpected<Error> no_compiler(const Lock& lock, const std::string& cause) {
  return fail(
      error(ErrorCode::refused, fmt::format("{} can't be compiled: {}", fmt::join(lock.built_with_torch, ", "), cause))
          .with_hint("take a release of it that comes as a wheel for this torch and Python"));
}

Result<void> choose_compiler(TorchBuild& build, const Lock& lock) {
  build.toolkit = toolkit_for(lock.cuda);
  if (build.toolkit == nullptr)
    return no_compiler(lock, fmt::format("no compiler of CUDA {} is to be had as packages", lock.cuda));
  if (compare(build.toolkit->glibc, fmt::format("2.{}", glibc_minor_of(lock.suite))) > 0)
    return no_compiler(lock, fmt::format("the compiler of CUDA {} doesn't run on Debian {}, where Python {} is from",
                                         build.toolkit->cuda, lock.suite, lock.python));
  const int gcc = host_compiler(*build.toolkit, lock.suite);
  if (gcc == 0)
    return no_compiler(lock, fmt::format("CUDA {} takes GCC up to {}, and Debian {} has none so old",
                                         build.toolkit->cuda, build.toolkit->newest_gcc, lock.suite));
  if (gcc != compilers_of(lock.suite)->gcc.front()) {
    build.gcc = gcc;
    build.packages.push_back(fmt::format("g++-{}", gcc));
  }
  build.architectures = known_to(*build.toolkit, lock.build_architectures);
  // For GPUs that aren't here newer ones must do, too, as torch's own kernels do.
  if (lock.build_architectures == lock.architectures && !build.architectures.empty() &&
      !build.architectures.back().ends_with("+PTX"))
    build.architectures.back() += "+PTX";
  if (build.architectures.empty())
    return no_compiler(lock, fmt::format("the compiler of CUDA {} has no code for compute capability {}",
                                         build.toolkit->cuda, fmt::join(lock.build_architectures, ", ")));
  return {};
}

std::string identity_of(const TorchBuild& build, const Lock& lock, const LockedPackage& torch) {
  std::string text =
      fmt::format("torch {} {}\npython {} on {}\n", torch.version, torch.artifact.sha256, lock.python, lock.suite);
  if (build.toolkit == nullptr) return text + "without CUDA\n";
  return text + fmt::format("CUDA {} of {} {} {}\nGCC {}\narchitectures {}\n", build.toolkit->cuda,
                            fmt::join(build.toolkit->wheels, " "), build.toolkit->debian_suite,
                            build.toolkit->debian_package, host_compiler(*build.toolkit, lock.suite),
                            fmt::join(build.architectures, ";"));
}

}  // namespace

const TorchPackage* torch_package(std::string_view name) {
  const auto found = std::ranges::find(rules().packages, name, &TorchPackage::name);
  return found == rules().packages.end() ? nullptr : &*found;
}

const std::vector<Toolkit>& toolkits() {
  return rules().toolkits;
}

const Toolkit* toolkit_for(std::string_view cuda) {
  const Toolkit* best = nullptr;
  for (const auto& toolkit : toolkits()) {
    if (major_of(toolkit.cuda) != major_of(cuda)) continue;
    best = &toolkit;
    if (compare(toolkit.cuda, cuda) <= 0) break;
  }
  return best;
}

int host_compiler(const Toolkit& toolkit, std::string_view suite) {
  const auto* compilers = compilers_of(suite);
  if (compilers == nullptr) return 0;
  const auto found = std::ranges::find_if(compilers->gcc, [&](int gcc) { return gcc <= toolkit.newest_gcc; });
  return found == compilers->gcc.end() ? 0 : *found;
}

Result<TorchBuild> torch_build(const Lock& lock) {
  const auto* torch = torch_of(lock);
  if (torch == nullptr)
    return fail(
        error(ErrorCode::refused, fmt::format("{} is compiled against torch, which this project doesn't ask for",
                                              fmt::join(lock.built_with_torch, ", ")))
            .with_hint("add a line `torch` to the requirements"));
  TorchBuild build;
  if (has_cuda(lock, *torch)) TRY(choose_compiler(build, lock));
  build.identity = identity_of(build, lock, *torch);
  return build;
}

std::vector<std::string> build_architectures(const machine::Machine& machine, const Lock& lock,
                                             const std::vector<std::string>& told) {
  std::vector<std::string> found = told;
  for (const auto& gpu : machine.gpus)
    if (told.empty() && gpu.visible && gpu.compute_major > 0) found.push_back(gpu.compute_capability());
  if (found.empty()) found = lock.architectures;
  std::ranges::sort(found, [](const auto& left, const auto& right) { return compare(left, right) < 0; });
  const auto repeated = std::ranges::unique(found);
  found.erase(repeated.begin(), repeated.end());
  return found;
}

// Code for X.y runs on X.z with z ≥ y (CUDA C++ Programming Guide, "Binary Compatibility").
std::optional<std::string> compiled_for_others(const Lock& lock, const machine::Machine& machine) {
  if (lock.build_architectures.empty() || lock.build_architectures == lock.architectures) return std::nullopt;
  for (const auto& gpu : machine.gpus) {
    const std::string own = gpu.compute_capability();
    const bool runs = std::ranges::any_of(lock.build_architectures, [&](const std::string& built) {
      return major_of(built) == major_of(own) && compare(built, own) <= 0;
    });
    if (gpu.visible && gpu.compute_major > 0 && !runs)
      return fmt::format("{} was compiled for GPUs of compute capability {}, and {} has {}",
                         fmt::join(lock.built_with_torch, ", "), fmt::join(lock.build_architectures, ", "), gpu.name,
                         own);
  }
  return std::nullopt;
}

bool is_built_with_torch(const Lock& lock, std::string_view package) {
  return std::ranges::find(lock.built_with_torch, package) != lock.built_with_torch.end();
}

int compile_jobs(Bytes memory, int cpus) {
  const auto fitting = static_cast<int>(std::min<std::uint64_t>(memory.count / k_memory_of_a_job.count, 1024));
  return std::clamp(fitting, 1, std::max(1, cpus));
}

}  // namespace startrail::lock
