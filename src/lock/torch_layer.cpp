#include "lock/torch_layer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "lock/cuda_toolkit.hpp"
#include "lock/torch_build.hpp"
#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

// torch 2.2 and older import pkg_resources.packaging, which setuptools has not from 70 on.
constexpr const char* k_first_without_packaging = "2.3";

// The same image without sources: what they see must not depend on the order in which they are built.
Lock without_sources(const Lock& lock, const TorchBuild& torch, const BaseProvider& provider) {
  Lock plain = lock;
  std::erase_if(plain.packages, [](const LockedPackage& package) { return !is_wheel(package); });
  plain.built_with_torch.clear();
  plain.build_architectures.clear();
  if (torch.packages.empty()) return plain;
  plain.system_packages.insert(plain.system_packages.end(), torch.packages.begin(), torch.packages.end());
  std::ranges::sort(plain.system_packages);
  plain.base_recipe = provider.recipe_digest(plain.suite, plain.system_packages);
  plain.base_digest.clear();
  return plain;
}

base::Environment cuda_variables(const TorchBuild& torch) {
  base::Environment variables{{"CUDA_HOME", k_toolkit_inside},
                              {"CUDA_PATH", k_toolkit_inside},
                              {"CUDA_BIN_PATH", k_toolkit_inside},
                              {"FORCE_CUDA", "1"},
                              {"TORCH_CUDA_ARCH_LIST", fmt::format("{}", fmt::join(torch.architectures, ";"))}};
  const std::string suffix = torch.gcc == 0 ? "" : fmt::format("-{}", torch.gcc);
  variables["CC"] = "/usr/bin/gcc" + suffix;
  variables["CXX"] = variables["CUDAHOSTCXX"] = "/usr/bin/g++" + suffix;
  variables["NVCC_PREPEND_FLAGS"] = "-ccbin /usr/bin/g++" + suffix;
  return variables;
}

// setup.py files that would rather fetch somebody's wheel than compile: what is built must follow from the key alone.
void forbid_downloads(base::Environment& variables) {
  for (const char* name : {"FLASH_ATTENTION_FORCE_BUILD", "CAUSAL_CONV1D_FORCE_BUILD", "MAMBA_FORCE_BUILD"})
    variables[name] = "TRUE";
}

bool is_before(const std::string& version, const char* bound) {
  const auto left = project::Version::parse(version);
  const auto right = project::Version::parse(bound);
  return left && right && *left < *right;
}

struct Location {
  std::string_view file, line, message;
};

// "a.cu(12): error: …" of NVIDIA's compilers, "a.cpp:12:5: error: …" of GCC.
std::optional<Location> location_in(std::string_view text) {
  auto error = text.find("error");
  if (error == std::string_view::npos || error < 4) return std::nullopt;
  const auto colon = text.find(": ", error);
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view place = text.substr(0, error);
  for (const std::string_view word : {"fatal ", ": "})
    if (place.ends_with(word)) place.remove_suffix(word.size());
  const auto split = place.find_first_of("(:");
  if (split == std::string_view::npos || split + 1 >= place.size()) return std::nullopt;
  if (std::isdigit(static_cast<unsigned char>(place[split + 1])) == 0) return std::nullopt;
  const std::string_view line = place.substr(split + 1);
  return Location{.file = place.substr(0, split),
                  .line = line.substr(0, line.find_first_not_of("0123456789")),
                  .message = text.substr(colon + 2)};
}

// Where the build lies inside says nothing to the user.
std::string_view shown_file(std::string_view file) {
  for (const std::string_view start : {"/build/tmp/source/", "/build/folder/", "/build/checkout/", "/workspace/"})
    if (file.starts_with(start)) return file.substr(start.size());
  return file;
}

}  // namespace

Result<TorchLayer> torch_layer(const LockedPackage& package, const SourceBuild& build, const machine::Machine& machine,
                               Reporter& reporter) {
  const Lock& lock = *build.lock;
  const TorchBuild torch = TRY(torch_build(lock));
  TorchLayer layer{.layers = {},
                   .toolkit = {},
                   .site = fmt::format("/opt/env/lib/python{}/site-packages", lock.python),
                   .variables = {},
                   .provided = {},
                   .tools = {"setuptools", "wheel", "packaging", "ninja"},
                   .bounds = {}};
  layer.layers =
      TRY(build.provider->layers(without_sources(lock, torch, *build.provider), build.lock_directory, reporter));
  if (torch.toolkit != nullptr) {
    layer.toolkit = TRY(ensure_toolkit(*torch.toolkit, build, machine, reporter));
    layer.variables = cuda_variables(torch);
  }
  forbid_downloads(layer.variables);
  const Bytes memory = machine.memory_available.count > 0 ? machine.memory_available : machine.memory;
  layer.variables["MAX_JOBS"] = std::to_string(compile_jobs(memory, machine.cpus));
  for (const auto& other : lock.packages)
    if (is_wheel(other)) layer.provided.push_back(other.name);
  if (const auto* known = torch_package(package.name))
    layer.tools.insert(layer.tools.end(), known->tools.begin(), known->tools.end());
  if (is_before(lock.framework_version, k_first_without_packaging)) layer.bounds.emplace_back("setuptools<70");
  return layer;
}

std::string first_compiler_error(std::string_view output) {
  while (!output.empty()) {
    const auto end = std::min(output.find('\n'), output.size());
    const auto found = location_in(output.substr(0, end));
    output.remove_prefix(std::min(end + 1, output.size()));
    if (!found) continue;
    return fmt::format("{}, line {}: {}", shown_file(found->file), found->line, project::trimmed(found->message));
  }
  return "";
}

std::string compiler_advice(std::string_view output) {
  const auto has = [&](std::string_view words) { return output.find(words) != std::string_view::npos; };
  if (has("Killed signal terminated program") || has("Killed\n"))
    return "the compiler ran out of memory: free some, or build where a compiler can have 4 GB";
  if (has("unsupported GNU version")) return "its setup.py chooses a C++ compiler of its own: it must use CXX";
  if (has("Unsupported gpu architecture"))
    return "its setup.py asks for GPUs that this CUDA doesn't know: take a release of its time";
  return "";
}

}  // namespace startrail::lock
