#include "instance/place.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace startrail::instance {
namespace {

constexpr std::size_t k_longest_name = 63;  // of a host's name (RFC 1123), and so of the container's

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_plain(char c) {
  return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
}

}  // namespace

Place place_of(const base::StatePaths& paths, const std::string& name) {
  return {paths.instances() / name};
}

std::filesystem::path client_configuration_file(const base::StatePaths& paths) {
  return paths.instances() / "ssh_config";
}

Result<void> check_name(const std::string& name) {
  const bool good = !name.empty() && name.size() <= k_longest_name && is_alphanumeric(name.front()) &&
                    std::ranges::all_of(name, is_plain);
  if (good) return {};
  return fail(base::error(ErrorCode::usage, fmt::format("`{}` is no name for an instance", name))
                  .with_context("it becomes the name of a host: letters, digits, `.`, `_` and `-`, at most 63")
                  .with_hint(fmt::format("for example: {}", name_for_folder(name))));
}

std::string name_for_folder(const std::filesystem::path& folder) {
  std::string name;
  for (const char c : folder.filename().string())
    if (is_plain(c) && (!name.empty() || is_alphanumeric(c))) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  name.resize(std::min(name.size(), k_longest_name));
  while (!name.empty() && !is_alphanumeric(name.back())) name.pop_back();
  return name.empty() ? "instance" : name;
}

}  // namespace startrail::instance
