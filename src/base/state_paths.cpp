#include "base/state_paths.hpp"

#include <pwd.h>
#include <unistd.h>

namespace startrail::base {
namespace {

std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::filesystem::path home_directory(const Environment& environment) {
  if (auto home = value_of(environment, "HOME"); !home.empty()) return home;
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? "" : entry->pw_dir;
}

}  // namespace

Result<StatePaths> state_paths(const Environment& environment) {
  if (const auto chosen = value_of(environment, "STARTRAIL_HOME"); !chosen.empty()) {
    if (chosen.front() != '/')
      return fail(error(ErrorCode::invalid_input, "STARTRAIL_HOME is `" + chosen + "`, which is not an absolute path")
                      .with_hint("set it to a folder such as /data/startrail, or unset it"));
    return StatePaths{std::filesystem::path(chosen).lexically_normal()};
  }
  if (::geteuid() == 0) return StatePaths{"/var/lib/startrail"};
  if (const auto data = value_of(environment, "XDG_DATA_HOME"); data.starts_with('/'))
    return StatePaths{std::filesystem::path(data) / "startrail"};
  const auto home = home_directory(environment);
  if (!home.is_absolute())
    return fail(error(ErrorCode::invalid_input, "there is no home folder to keep state in: HOME is not set")
                    .with_hint("set STARTRAIL_HOME to a folder with some free gigabytes"));
  return StatePaths{home / ".local/share/startrail"};
}

std::filesystem::path config_directory(const Environment& environment) {
  if (const auto config = value_of(environment, "XDG_CONFIG_HOME"); config.starts_with('/'))
    return std::filesystem::path(config) / "startrail";
  return home_directory(environment) / ".config/startrail";
}

}  // namespace startrail::base
