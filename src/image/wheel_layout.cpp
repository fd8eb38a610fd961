#include "image/wheel_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "image/wheel_tree.hpp"

namespace startrail::image {
namespace {

std::string_view first_component(std::string_view path) {
  return path.substr(0, path.find('/'));
}

Result<std::string> find_dist_info(const std::vector<ZipEntry>& entries) {
  std::string found;
  for (const ZipEntry& entry : entries) {
    const std::string_view top = first_component(entry.name);
    if (top.size() == entry.name.size() || !top.ends_with(".dist-info") || top == found) continue;
    if (!found.empty())
      return base::fail(ErrorCode::corrupt, fmt::format("it has two .dist-info folders, {} and {}", found, top));
    found = top;
  }
  if (found.empty()) return base::fail(ErrorCode::corrupt, "it has no .dist-info folder, so it is not a wheel");
  return found;
}

// Written by the installer, so an archive's own are not taken over.
bool is_installers_own(std::string_view name, std::string_view dist_info) {
  if (!name.starts_with(dist_info) || name.size() <= dist_info.size()) return false;
  const std::string_view file = name.substr(dist_info.size() + 1);
  return file == "RECORD" || file == "INSTALLER" || file == "REQUESTED" || file == "direct_url.json";
}

Result<Placement> place_data(const ZipEntry& entry, std::string_view inside) {
  const std::string_view scheme = first_component(inside);
  const std::string_view rest = inside.substr(std::min(scheme.size() + 1, inside.size()));
  Placement placement{.target = {}, .executable = entry.executable};
  if (entry.is_folder() && rest.empty()) return placement;  // the scheme's folder itself
  if (rest.empty())
    return base::fail(ErrorCode::corrupt, fmt::format("'{}' lies beside the .data schemes", entry.name));
  if (scheme == "purelib" || scheme == "platlib") {
    placement.target = fmt::format("site/{}", rest);
  } else if (scheme == "scripts") {
    placement.target = fmt::format("bin/{}", rest);
    placement.executable = placement.is_script = true;
  } else if (scheme == "data" || scheme == "headers") {
    placement.target = fmt::format("{}/{}", scheme, rest);
  } else {
    return base::fail(ErrorCode::corrupt, fmt::format("'{}' belongs to the unknown scheme '{}'", entry.name, scheme));
  }
  return placement;
}

}  // namespace

Result<void> check_environment_path(std::string_view path) {
  const bool interpreter =
      path.starts_with("bin/python") && path.substr(10).find_first_not_of("0123456789.") == std::string_view::npos;
  if (!interpreter && path != "pyvenv.cfg" && path != "lib64" && path != "bin" && path != "lib") return {};
  return base::fail(ErrorCode::unsafe_path, fmt::format("'{}' would replace a file of the environment itself", path));
}

Result<WheelLayout> wheel_layout(const std::vector<ZipEntry>& entries) {
  WheelLayout layout{.dist_info = TRY(find_dist_info(entries)), .name = {}, .version = {}, .placements = {}};
  const std::string_view stem = std::string_view(layout.dist_info).substr(0, layout.dist_info.size() - 10);
  const std::size_t dash = stem.rfind('-');
  if (dash == std::string_view::npos || dash == 0)
    return base::fail(ErrorCode::corrupt, fmt::format("its folder {} does not say name and version", layout.dist_info));
  layout.name = stem.substr(0, dash);
  layout.version = stem.substr(dash + 1);
  const std::string data = std::string(stem) + ".data";
  std::unordered_set<std::string_view> targets;
  layout.placements.reserve(entries.size());
  for (const ZipEntry& entry : entries) {
    Placement placement{.target = "site/" + entry.name, .executable = entry.executable};
    if (first_component(entry.name) == data && entry.name.size() > data.size())
      placement = TRY(place_data(entry, std::string_view(entry.name).substr(data.size() + 1)));
    else if (is_installers_own(entry.name, layout.dist_info))
      placement.target = entry.name.ends_with("/RECORD") ? k_wheel_record : "";
    if (!entry.is_folder() && !placement.target.empty())
      TRY(check_environment_path(environment_path(placement.target, "3", layout.name)));
    layout.placements.push_back(std::move(placement));
  }
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const std::string& target = layout.placements[index].target;
    if (entries[index].is_folder() || target.empty() || targets.insert(target).second) continue;
    return base::fail(ErrorCode::corrupt, fmt::format("two of its files would become {}", target));
  }
  return layout;
}

}  // namespace startrail::image
