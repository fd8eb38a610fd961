#include "lock/uv_environment.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"

namespace startrail::lock {
namespace {

constexpr std::array k_network_variables{"http_proxy",      "https_proxy",     "all_proxy", "no_proxy",
                                         "HTTP_PROXY",      "HTTPS_PROXY",     "ALL_PROXY", "NO_PROXY",
                                         "UV_HTTP_TIMEOUT", "UV_INSECURE_HOST"};
constexpr const char* k_certificates_inside = "/etc/ssl/certs/ca-certificates.crt";

void put_indexes(base::Environment& environment, const UvIndexes& indexes) {
  for (const char* name : {"UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS"}) environment.erase(name);
  environment["UV_DEFAULT_INDEX"] = indexes.default_index;
  if (!indexes.extra_indexes.empty())
    environment["UV_INDEX"] = fmt::format("{}", fmt::join(indexes.extra_indexes, " "));
  if (!indexes.find_links.empty()) environment["UV_FIND_LINKS"] = fmt::format("{}", fmt::join(indexes.find_links, ","));
  if (indexes.search == IndexSearch::best_match) environment["UV_INDEX_STRATEGY"] = "unsafe-best-match";
}

// A lock must not depend on what the host's shell happens to say: pre-releases, dates, torch backends and the like.
void drop_preferences(base::Environment& environment) {
  for (const char* name : {"UV_TORCH_BACKEND",
                           "UV_PRERELEASE",
                           "UV_RESOLUTION",
                           "UV_EXCLUDE_NEWER",
                           "UV_CONSTRAINT",
                           "UV_OVERRIDE",
                           "UV_EXCLUDE",
                           "UV_BUILD_CONSTRAINT",
                           "UV_PYTHON",
                           "UV_SYSTEM_PYTHON",
                           "UV_CONFIG_FILE",
                           "UV_PROJECT",
                           "UV_WORKING_DIR",
                           "UV_OFFLINE",
                           "UV_NO_BINARY",
                           "UV_NO_BUILD",
                           "UV_CUSTOM_COMPILE_COMMAND",
                           "VIRTUAL_ENV",
                           "CONDA_PREFIX",
                           "PYTHONPATH",
                           "PYTHONHOME",
                           "RUST_LOG"})
    environment.erase(name);
}

bool exists(const std::string& location) {
  std::error_code ignored;
  return location.find("://") != std::string::npos || fs::exists(location, ignored);
}

void add(std::vector<std::string>& list, const std::string& item) {
  if (!item.empty() && std::ranges::find(list, item) == list.end()) list.push_back(item);
}

}  // namespace

UvIndexes uv_indexes(const IndexConfiguration& configuration, const project::Requirements& needs,
                     const std::vector<std::string>& more) {
  UvIndexes indexes{.default_index = configuration.default_index, .search = configuration.search};
  if (needs.indexes.index_url) indexes.default_index = needs.indexes.index_url->value;
  for (const auto& index : more) add(indexes.extra_indexes, index);
  for (const auto& index : needs.indexes.extra_index_urls) add(indexes.extra_indexes, index.value);
  for (const auto& index : configuration.extra_indexes) add(indexes.extra_indexes, index);
  if (!more.empty() || !needs.indexes.extra_index_urls.empty()) indexes.search = IndexSearch::best_match;
  for (const auto& links : needs.indexes.find_links) {
    const bool address = links.value.find("://") != std::string::npos;
    add(indexes.find_links, address ? links.value : (needs.folder / links.value).lexically_normal().string());
  }
  for (const auto& links : configuration.find_links)
    if (exists(links)) add(indexes.find_links, links);
  return indexes;
}

namespace {

// uv trusts a list of its own; a site whose proxy signs with a certificate of its own has that one in the system's.
std::string system_certificates() {
  for (const char* bundle : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"})
    if (exists(bundle)) return bundle;
  return "";
}

}  // namespace

base::Environment uv_environment(const base::Environment& host, const UvIndexes& indexes,
                                 const IndexConfiguration& configuration) {
  base::Environment environment = host;
  drop_preferences(environment);
  put_indexes(environment, indexes);
  environment["UV_PYTHON_DOWNLOADS"] = "never";
  environment["UV_NO_PROGRESS"] = "1";
  environment["GIT_TERMINAL_PROMPT"] = "0";
  const std::string certificates =
      configuration.certificates.empty() ? system_certificates() : configuration.certificates;
  if (!certificates.empty()) environment["SSL_CERT_FILE"] = certificates;
  return environment;
}

base::Environment contained_uv_environment(const base::Environment& host, const UvIndexes& indexes) {
  base::Environment environment{{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                                {"HOME", "/tmp"},
                                {"TMPDIR", "/tmp"},
                                {"LANG", "C.UTF-8"},
                                {"GIT_TERMINAL_PROMPT", "0"},
                                {"UV_PYTHON_DOWNLOADS", "never"},
                                {"UV_NO_PROGRESS", "1"},
                                {"SSL_CERT_FILE", k_certificates_inside}};
  for (const char* name : k_network_variables)
    if (const auto found = host.find(name); found != host.end()) environment.insert(*found);
  put_indexes(environment, indexes);
  return environment;
}

}  // namespace startrail::lock
