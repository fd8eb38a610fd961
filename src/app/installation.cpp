#include "app/installation.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "base/document.hpp"
#include "base/files.hpp"
#include "catalog/catalog.hpp"
#include "image/system_store.hpp"

namespace startrail::app {
namespace {

// Root's own store, where root's state folder is not set to another.
constexpr const char* k_default_system_store = "/var/lib/startrail/store";

std::string user_name() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? fmt::format("uid {}", ::getuid()) : std::string(entry->pw_name);
}

}  // namespace

fs::path system_store_of(const base::Environment& environment) {
  std::optional<std::string> named;
  if (const auto found = environment.find("STARTRAIL_SYSTEM_STORE"); found != environment.end())
    named = found->second;
  else if (const auto config = base::read_toml_file(base::config_directory(environment) / "config.toml"))
    if (base::member(config->root, "system_store").is_string()) named = base::string_at(config->root, "system_store");
  if (named) return named->starts_with('/') ? fs::path(*named) : fs::path();
  return ::access(k_default_system_store, X_OK) == 0 ? fs::path(k_default_system_store) : fs::path();
}

Result<Installation> find_installation() {
  Installation installation{.environment = base::current_environment()};
  installation.paths = TRY(base::state_paths(installation.environment));
  installation.program = base::own_program();
  installation.host = machine::host_paths_from_environment();
  installation.user = user_name();
  image::use_system_store(system_store_of(installation.environment));
  catalog::use_user_rows(base::config_directory(installation.environment) / "catalog");
  return installation;
}

Error unusable_state(Error reason, const Installation& installation) {
  return std::move(reason)
      .with_context(fmt::format("{} keeps images and runs", installation.paths.root.string()))
      .with_hint("set STARTRAIL_HOME to a folder of yours with some free gigabytes");
}

Result<void> prepare_state(const Installation& installation) {
  const fs::path& root = installation.paths.root;
  for (const auto& folder : {root, installation.paths.runs(), installation.paths.store()})
    if (auto made = base::make_directories(folder); !made)
      return fail(unusable_state(std::move(made).error(), installation));
  if (::access(installation.paths.runs().c_str(), W_OK | X_OK) != 0)
    return fail(unusable_state(
        base::errno_error(fmt::format("cannot write in {}", installation.paths.runs().string()), errno), installation));
  return {};
}

}  // namespace startrail::app
