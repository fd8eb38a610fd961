#include "lock/build_help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/document.hpp"

namespace startrail::lock {
namespace {

// setuptools 82 has no pkg_resources any more, which most setup.py files from before 2024 import.
constexpr const char* k_old_setuptools = "setuptools<81";

std::string list_of(const std::vector<std::string>& texts) {
  std::string list;
  for (const auto& text : texts) list += (list.empty() ? "" : ", ") + base::toml_quote(text);
  return "[" + list + "]";
}

}  // namespace

bool learn_torch(BuildHelp& help, const std::string& package, std::vector<std::string>& notes) {
  if (package.empty() || !help.metadata.emplace(package, std::vector<std::string>{"torch"}).second) return false;
  notes.push_back(fmt::format("{} is built against the torch of this project, which its build imports", package));
  return true;
}

bool learn(BuildHelp& help, const UvFailure& failure, std::vector<std::string>& notes) {
  if (failure.kind != FailureKind::build_failed || failure.missing_module.empty()) return false;
  if (failure.missing_module == k_torch_module) return learn_torch(help, failure.package, notes);
  const std::string provider = provider_of(failure.missing_module);
  if (provider.empty()) return false;
  if (provider == k_old_setuptools) {
    if (std::ranges::find(help.constraints, provider) != help.constraints.end()) return false;
    help.constraints.push_back(provider);
    notes.push_back(
        fmt::format("sources were built with {}: {} imports {}", provider, failure.package, failure.missing_module));
    return true;
  }
  if (failure.package.empty()) return false;
  auto& added = help.requirements[failure.package];
  if (std::ranges::find(added, provider) != added.end()) return false;
  added.push_back(provider);
  notes.push_back(
      fmt::format("{} was built with {}, which its setup.py imports and doesn't declare", failure.package, provider));
  return true;
}

std::string build_settings(const BuildHelp& help, const std::set<std::string>& from_elsewhere) {
  std::string text = "[extra-build-dependencies]\n";
  for (const auto& [package, needed] : help.requirements)
    text += fmt::format("{} = {}\n", base::toml_quote(package), list_of(needed));
  // A release in an index may be any; what comes from elsewhere must have one, and uv takes the only one that it finds.
  for (const auto& [package, needed] : help.metadata)
    text += fmt::format("\n[[dependency-metadata]]\nname = {}\n{}requires-dist = {}\n", base::toml_quote(package),
                        from_elsewhere.contains(package) ? "version = \"0\"\n" : "", list_of(needed));
  return text;
}

std::string provider_of(std::string_view module) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> k_providers{{
      {"pkg_resources", k_old_setuptools},
      {"distutils", k_old_setuptools},
      {"numpy", "numpy"},
      {"Cython", "cython"},
      {"cython", "cython"},
      {"wheel", "wheel"},
      {"packaging", "packaging"},
      {"pybind11", "pybind11"},
      {"psutil", "psutil"},
      {"pkgconfig", "pkgconfig"},
      {"cffi", "cffi"},
      {"scipy", "scipy"},
  }};
  const auto found = std::ranges::find(k_providers, module, &std::pair<std::string_view, std::string_view>::first);
  return found == k_providers.end() ? "" : std::string(found->second);
}

std::string advice_for(const UvFailure& failure) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 14> k_headers{{
      {"ft2build.h", "libfreetype-dev"},
      {"png.h", "libpng-dev"},
      {"jpeglib.h", "libjpeg-dev"},
      {"zlib.h", "zlib1g-dev"},
      {"mpi.h", "libopenmpi-dev"},
      {"hdf5.h", "libhdf5-dev"},
      {"portaudio.h", "portaudio19-dev"},
      {"sndfile.h", "libsndfile1-dev"},
      {"ffi.h", "libffi-dev"},
      {"lapacke.h", "liblapacke-dev"},
      {"cblas.h", "libopenblas-dev"},
      {"libxml/xmlversion.h", "libxml2-dev"},
      {"boost/config.hpp", "libboost-dev"},
      {"Eigen/Core", "libeigen3-dev"},
  }};
  const auto found =
      std::ranges::find(k_headers, failure.missing_header, &std::pair<std::string_view, std::string_view>::first);
  if (found != k_headers.end())
    return fmt::format("add system-packages = [\"{}\"] to [environment] in trail.toml: it has {}", found->second,
                       found->first);
  if (failure.missing_module == k_torch_module || failure.missing_header.starts_with("cuda") ||
      failure.reason.find("nvcc") != std::string::npos || failure.reason.find("CUDA_HOME") != std::string::npos)
    return "add build-with-torch = [\"" + failure.package +
           "\"] to [environment] in trail.toml: it is then compiled against its torch, with the compiler of its CUDA";
  return "";
}

}  // namespace startrail::lock
