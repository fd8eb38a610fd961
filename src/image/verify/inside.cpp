#include "image/verify/inside.hpp"

#include <sys/stat.h>

#include <deque>

#include "base/files.hpp"

namespace startrail::image {
namespace {

constexpr int k_most_links = 40;  // as the kernel's own limit (path_resolution(7))

std::deque<std::string> components(const fs::path& path) {
  std::deque<std::string> parts;
  for (const auto& part : path.relative_path())
    if (!part.empty() && part != ".") parts.push_back(part.string());
  return parts;
}

}  // namespace

// The topmost layer that has something at this path, whatever it is.
std::optional<fs::path> Inside::here(const fs::path& path) const {
  for (const fs::path& layer : m_layers) {
    fs::path place = layer / path.relative_path();
    struct stat status{};
    if (::lstat(place.c_str(), &status) == 0) return place;
  }
  return std::nullopt;
}

std::optional<fs::path> Inside::find(const std::string& path) const {
  std::deque<std::string> left = components(path);
  fs::path walked = "/";
  std::optional<fs::path> place;
  for (int links = 0; !left.empty();) {
    const std::string part = left.front();
    left.pop_front();
    if (part == "..") {
      walked = walked.parent_path();
      continue;
    }
    place = here(walked / part);
    if (!place) return std::nullopt;
    std::error_code failed;
    if (!fs::is_symlink(*place, failed)) {
      walked /= part;
      continue;
    }
    if (++links > k_most_links) return std::nullopt;
    const fs::path target = fs::read_symlink(*place, failed);
    if (target.is_absolute()) walked = "/";
    const auto parts = components(target);
    left.insert(left.begin(), parts.begin(), parts.end());
  }
  return here(walked);
}

}  // namespace startrail::image
