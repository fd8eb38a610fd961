// What a base is made of.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/hash.hpp"
#include "image/base_system.hpp"
#include "image/image.hpp"

namespace startrail::image {
namespace {

// Part of the recipe's digest: to be raised when what is made from the same package list changes.
constexpr int k_recipe_version = 1;

// What wheels silently expect: a compiler with Python's headers (torch.compile, Triton, sdists), OpenMP, GL, GLib
// and X libraries (OpenCV), git, certificates, time zones; and what training scripts call to fetch and unpack data.
constexpr std::array k_packages{"ca-certificates", "g++",         "gcc",  "git",     "libgl1",  "libgomp1",
                                "libsm6",          "libxrender1", "make", "procps",  "python3", "python3-dev",
                                "tzdata",          "unzip",       "wget", "xz-utils"};

struct SuitePackage {
  std::string_view suite, package;
};
// Debian 13's libraries with 64-bit time carry a suffix; Debian 12 is the last with distutils in a package of its own.
constexpr std::array k_suite_packages{
    SuitePackage{"bullseye", "libglib2.0-0"},  SuitePackage{"bullseye", "python3-distutils"},
    SuitePackage{"bookworm", "libglib2.0-0"},  SuitePackage{"bookworm", "python3-distutils"},
    SuitePackage{"trixie", "libglib2.0-0t64"},
};

std::string architecture() {
  utsname names{};
  return ::uname(&names) == 0 ? names.machine : "unknown";
}

}  // namespace

BaseRecipe base_recipe(const std::string& suite, const std::vector<std::string>& system_packages) {
  BaseRecipe recipe{.suite = suite, .packages = {k_packages.begin(), k_packages.end()}, .digest = {}};
  for (const auto& [of_suite, package] : k_suite_packages) {
    if (of_suite == suite) recipe.packages.emplace_back(package);
  }
  recipe.packages.insert(recipe.packages.end(), system_packages.begin(), system_packages.end());
  std::ranges::sort(recipe.packages);
  const auto repeated = std::ranges::unique(recipe.packages);
  recipe.packages.erase(repeated.begin(), repeated.end());
  std::string text = fmt::format("recipe {}\n{}\n{}\n", k_recipe_version, suite, architecture());
  for (const auto& package : recipe.packages) text += package + "\n";
  recipe.digest = base::sha256_hex(text);
  return recipe;
}

}  // namespace startrail::image
