// How mmdebstrap is called, and what its messages mean.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/files.hpp"
#include "image/base_system.hpp"

namespace startrail::image {
namespace {

// Left out of every base: documentation and translations, 200 MB of what only the packages' own builds need, ...
constexpr std::array k_excluded{
    "/usr/share/doc/*",     "/usr/share/man/*",     "/usr/share/info/*",    "/usr/share/locale/*",
    "/usr/share/lintian/*", "/usr/share/gtk-doc/*", "/usr/bin/*-lto-dump*", "/usr/lib/python3*/config-*/libpython*.a"};
// ... and, unless system packages are asked for, the software renderer behind libGL: OpenCV needs the library to
// load, and nothing more.
constexpr std::array k_renderer{"/usr/lib/*/libLLVM*", "/usr/lib/*/dri/*", "/usr/lib/*/libgallium*"};

// Licences must stay where they were distributed from.
constexpr const char* k_kept = "/usr/share/doc/*/copyright";

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : ",") + word;
  return line;
}

bool only_our_packages(const BaseRecipe& recipe) {
  return recipe.digest == base_recipe(recipe.suite, {}).digest;
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

// The text between `before` and `after`, or "".
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t start = text.find(before);
  if (start == std::string_view::npos) return {};
  const std::string_view rest = text.substr(start + before.size());
  return rest.substr(0, rest.find(after));
}

std::string missing_package(std::string_view messages) {
  for (const auto& [before, after] : {std::pair<std::string_view, std::string_view>{"Unable to locate package ", "\n"},
                                      {"Package '", "' has no installation candidate"},
                                      {"E: Package ", " has no installation candidate"},
                                      {"Couldn't find any package by glob '", "'"}}) {
    const std::string_view name = between(messages, before, after);
    if (!name.empty() && name.size() < 100 && name.find_first_of(" \n") == std::string_view::npos)
      return std::string(name);
  }
  return {};
}

// The first line that apt or mmdebstrap marks as an error: the later ones follow from it.
std::string first_error(std::string_view messages) {
  for (std::size_t start = 0; start < messages.size();) {
    const std::size_t end = std::min(messages.find('\n', start), messages.size());
    const std::string_view line = messages.substr(start, end - start);
    if (line.starts_with("E: ")) return std::string(line.substr(3));
    start = end + 1;
  }
  return "mmdebstrap failed";
}

}  // namespace

std::vector<std::string> mmdebstrap_arguments(const BaseRecipe& recipe, const BaseBuild& build) {
  std::vector<std::string> words{"mmdebstrap", "--mode=" + build.mode, "--variant=essential",
                                 "--include=" + joined(recipe.packages), "--aptopt=Acquire::Languages \"none\"",
                                 "--aptopt=Acquire::Retries \"3\"", "--aptopt=APT::Install-Recommends \"false\"",
                                 // Nobody reads the tree before it is complete, and it is synced as a whole then.
                                 "--dpkgopt=force-unsafe-io"};
  for (const char* pattern : k_excluded) words.push_back(fmt::format("--dpkgopt=path-exclude={}", pattern));
  if (only_our_packages(recipe)) {
    for (const char* pattern : k_renderer) words.push_back(fmt::format("--dpkgopt=path-exclude={}", pattern));
  }
  words.push_back(fmt::format("--dpkgopt=path-include={}", k_kept));
  words.push_back(build.target.extension() == ".tar" ? "--format=tar" : "--format=directory");
  words.push_back(recipe.suite);
  words.push_back(build.target.string());
  for (const auto& source : build.sources) words.push_back(source.string());
  return words;
}

std::vector<fs::path> host_sources(const fs::path& host_root, std::string_view suite) {
  const std::string release = base::read_file(host_root / "etc/os-release").value_or("");
  if (release.find("\nID=debian\n") == std::string::npos ||
      release.find(fmt::format("\nVERSION_CODENAME={}\n", suite)) == std::string::npos)
    return {};
  std::vector<fs::path> files;
  for (const char* name : {"etc/apt/sources.list.d/debian.sources", "etc/apt/sources.list"}) {
    const std::string text = base::read_file(host_root / name).value_or("");
    const bool debians_own =
        !contains_any(text, {"Signed-By", "signed-by"}) || text.find("debian-archive-keyring") != std::string::npos;
    if (debians_own && text.find(suite) != std::string::npos && text.find("main") != std::string::npos)
      files.push_back(host_root / name);
  }
  return files;
}

Error mmdebstrap_error(std::string_view messages, const BaseRecipe& recipe, const fs::path& log) {
  const std::string first = first_error(messages);
  const auto make = [&](ErrorCode code, std::string message) {
    return base::error(code, std::move(message)).with_context(fmt::format("mmdebstrap: {}", first));
  };
  const std::string where = fmt::format("mmdebstrap's messages are in {}", log.string());
  if (const std::string package = missing_package(messages); !package.empty())
    return make(ErrorCode::refused, fmt::format("Debian {} has no package `{}`", recipe.suite, package))
        .with_hint(
            fmt::format("correct `system-packages` in trail.toml; names are those of `apt-cache search` on Debian {}",
                        recipe.suite));
  if (contains_any(messages, {"No space left on device", "enough free space"}))
    return make(ErrorCode::no_space, fmt::format("the disk is full: the Debian {} base needs about 1 GB", recipe.suite))
        .with_hint("`trail image prune` frees what no run uses; TMPDIR chooses where mmdebstrap works");
  if (contains_any(messages,
                   {"Temporary failure resolving", "Could not resolve", "Could not connect", "Connection failed",
                    "Connection timed out", "Network is unreachable", "Failed to fetch"}))
    return make(ErrorCode::network, "the Debian mirror could not be reached")
        .with_hint("check the network, or set http_proxy")
        .with_hint(where);
  if (contains_any(messages, {"does not have a Release file", "unknown suite", "cannot find"}))
    return make(ErrorCode::not_found, fmt::format("there is no Debian suite `{}` to be had", recipe.suite))
        .with_hint(where);
  return make(ErrorCode::internal, fmt::format("the Debian {} base could not be made", recipe.suite)).with_hint(where);
}

}  // namespace startrail::image
