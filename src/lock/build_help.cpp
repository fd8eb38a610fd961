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

}  // namespace

bool learn(BuildHelp& help, const UvFailure& failure, std::vector<std::string>& notes) {
  if (failure.kind != FailureKind::build_failed || failure.missing_module.empty()) return false;
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

std::string build_settings(const BuildRequirements& requirements) {
  std::string text = "[extra-build-dependencies]\n";
  for (const auto& [package, needed] : requirements) {
    std::string list;
    for (const auto& requirement : needed) list += (list.empty() ? "" : ", ") + base::toml_quote(requirement);
    text += fmt::format("{} = [{}]\n", base::toml_quote(package), list);
  }
  return text;
}

std::string provider_of(std::string_view module) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 13> k_providers{{
      {"pkg_resources", k_old_setuptools},
      {"distutils", k_old_setuptools},
      {"numpy", "numpy"},
      {"Cython", "cython"},
      {"cython", "cython"},
      {"torch", "torch"},
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
  if (failure.missing_header.starts_with("cuda") || failure.reason.find("nvcc") != std::string::npos ||
      failure.reason.find("CUDA_HOME") != std::string::npos)
    return "images have no CUDA compiler: take a version that comes as a wheel for this torch and Python";
  return "";
}

}  // namespace startrail::lock
