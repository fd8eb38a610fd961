// Libraries, packages, and versions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "diagnose/check_table.hpp"
#include "project/version.hpp"

namespace startrail::diagnose {
namespace {

struct LibraryOrigin {
  std::string_view library, wheel;
};
// Which wheel brings which library; the suffix -cu11 or -cu12 says for which CUDA.
constexpr std::array k_wheels{
    LibraryOrigin{"libcudart", "nvidia-cuda-runtime"}, LibraryOrigin{"libcublas", "nvidia-cublas"},
    LibraryOrigin{"libcudnn", "nvidia-cudnn"},         LibraryOrigin{"libcufft", "nvidia-cufft"},
    LibraryOrigin{"libcurand", "nvidia-curand"},       LibraryOrigin{"libcusolver", "nvidia-cusolver"},
    LibraryOrigin{"libcusparse", "nvidia-cusparse"},   LibraryOrigin{"libnvrtc", "nvidia-cuda-nvrtc"},
    LibraryOrigin{"libnvJitLink", "nvidia-nvjitlink"}, LibraryOrigin{"libcupti", "nvidia-cuda-cupti"},
    LibraryOrigin{"libnccl", "nvidia-nccl"},           LibraryOrigin{"libnvinfer", "tensorrt"},
};

// The libraries whose major version is CUDA's.
constexpr std::string_view k_numbered_by_cuda = "^lib(cudart|cublas(Lt)?|nvrtc|nvToolsExt|nvJitLink|cupti|nvjpeg)$";

bool soname(Match& match) {
  const std::string library = first_word(match, {"library"}), major = first_word(match, {"soname"});
  match.words.try_emplace("soname", "");
  match.words["built_for"] = library.starts_with("libcudnn")       ? fmt::format("cuDNN {}, another one", major)
                             : occurs(library, k_numbered_by_cuda) ? fmt::format("CUDA {}, another one", major)
                                                                   : "another CUDA";
  const auto origin =
      std::ranges::find_if(k_wheels, [&](const auto& known) { return library.starts_with(known.library); });
  match.words["library_fix"] =
      origin == k_wheels.end()
          ? "or bring it: the CUDA toolkit of that version has it"
          : fmt::format(
                "or bring it: the wheel {} for that CUDA has it, in site-packages/nvidia/…/lib; put that folder "
                "on LD_LIBRARY_PATH for a module that doesn't look there",
                origin->wheel);
  return true;
}

bool system_package(Match& match) {
  static constexpr std::array k_packages{
      LibraryOrigin{"libGL", "libgl1"},
      LibraryOrigin{"libgthread-2.0", "libglib2.0-0"},
      LibraryOrigin{"libglib-2.0", "libglib2.0-0"},
      LibraryOrigin{"libSM", "libsm6"},
      LibraryOrigin{"libICE", "libice6"},
      LibraryOrigin{"libXext", "libxext6"},
      LibraryOrigin{"libXrender", "libxrender1"},
      LibraryOrigin{"libEGL", "libegl1"},
      LibraryOrigin{"libX11", "libx11-6"},
      LibraryOrigin{"libGLX", "libglx0"},
      LibraryOrigin{"libOpenGL", "libopengl0"},
      LibraryOrigin{"libOSMesa", "libosmesa6"},
      LibraryOrigin{"libgomp", "libgomp1"},
  };
  const std::string library = first_word(match, {"library"});
  const auto package = std::ranges::find(k_packages, library, &LibraryOrigin::library);
  match.words["package"] = package != k_packages.end() ? package->wheel : "libxcb1";
  return true;
}

bool required_by(Match& match) {
  const std::string user = first_word(match, {"user"});
  match.words["user_told"] = user.empty() ? "a compiled module" : user.substr(user.rfind('/') + 1);
  return true;
}

std::vector<project::Version> versions_in(const std::string& text) {
  std::vector<project::Version> versions;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(", ", at);
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(text.find_first_of(", ", begin), text.size());
    if (auto version = project::Version::parse(text.substr(begin, end - begin))) versions.push_back(*version);
    at = end;
  }
  return versions;
}

// torch==2.0.1+cu118, and 2.0.1 is among those that the index has.
bool versions_are_listed(Match& match) {
  for (const char* name : {"name", "version", "local"}) {
    if (first_word(match, {name}).empty()) match.words[name] = first_word(match, {std::string(name) + "2"});
  }
  const std::string listed = first_word(match, {"versions"});
  if (listed.empty()) return true;
  const auto wanted = project::Version::parse(first_word(match, {"version"}));
  const auto versions = versions_in(listed);
  return wanted && std::ranges::find(versions, *wanted) != versions.end();
}

// No version that old is offered: this Python came after it.
bool wanted_is_older(Match& match) {
  const std::string python = first_word(match, {"python"}), range = first_word(match, {"range"});
  if (!python.empty()) match.words["python_told"] = fmt::format(" ({}; it takes {})", python, range);
  const std::string listed = first_word(match, {"versions"});
  if (listed.empty()) return true;
  const auto wanted = project::Version::parse(first_word(match, {"version"}));
  const auto versions = versions_in(listed);
  return wanted && !versions.empty() && *wanted < *std::ranges::min_element(versions);
}

bool conflict(Match& match) {
  const std::string what = first_word(match, {"what"}), who = first_word(match, {"who", "who2"});
  const std::string needs = first_word(match, {"needs", "needs2"}), have = first_word(match, {"have"});
  if (!what.empty())
    match.words["conflict_told"] = fmt::format(": {}", what);
  else if (!who.empty())
    match.words["conflict_told"] =
        fmt::format(": {} needs {}{}", who, needs, have.empty() ? "" : fmt::format(", and {} is there", have));
  return true;
}

bool cudnn_versions(Match& match) {
  const std::string found = first_word(match, {"found"}), built = first_word(match, {"built"});
  if (!found.empty())
    match.words["cudnn_told"] = fmt::format(": {} is loaded, {} or newer of the same major is needed", found, built);
  else
    match.confidence = 0.75;
  return true;
}

bool tensorflow_libraries(Match& match) {
  const std::string library = first_word(match, {"library"});
  if (!library.empty()) {
    match.words["tf_told"] =
        fmt::format("TensorFlow didn't find {}, which it was built with: it goes on with the CPU alone", library);
  } else if (!first_word(match, {"driver"}).empty()) {
    match.confidence = 0.6;
    match.words["tf_told"] =
        "TensorFlow sees no CUDA driver: none is loaded, the container got no GPU, or the CUDA libraries are missing";
  } else if (!first_word(match, {"empty"}).empty()) {
    match.confidence = 0.5;
    match.words["tf_told"] =
        "TensorFlow lists no GPU: most likely its CUDA libraries have another version than it was built with";
  } else {
    match.words["tf_told"] = "TensorFlow could not load its CUDA libraries and goes on with the CPU alone";
  }
  return true;
}

bool build_versions(Match& match) {
  const std::string toolkit = first_word(match, {"toolkit", "toolkit2"}),
                    torch = first_word(match, {"torch", "torch2"});
  if (!toolkit.empty()) match.words["versions_told"] = fmt::format(" ({} and {})", toolkit, torch);
  return true;
}

bool while_building(Match& match) {
  return occurs(match.window, R"(arch_list|CUDA_HOME|ARCH_LIST)") ||
         occurs(match.nearby, R"(build_ext|bdist_wheel|cpp_extension|ninja|Building wheel|setup\.py)");
}

constexpr std::array k_checks{
    NamedCheck{"soname", soname},
    NamedCheck{"system-package", system_package},
    NamedCheck{"required-by", required_by},
    NamedCheck{"versions-are-listed", versions_are_listed},
    NamedCheck{"wanted-is-older", wanted_is_older},
    NamedCheck{"conflict", conflict},
    NamedCheck{"cudnn-versions", cudnn_versions},
    NamedCheck{"tensorflow-libraries", tensorflow_libraries},
    NamedCheck{"build-versions", build_versions},
    NamedCheck{"while-building", while_building},
};

}  // namespace

std::span<const NamedCheck> package_checks() {
  return k_checks;
}

}  // namespace startrail::diagnose
